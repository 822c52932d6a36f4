"""Moving tensors between devices in as few pieces as pays: every piece is a remote call of its own."""

from collections.abc import Sequence
from math import prod
from typing import Any

import tensorflow as tf

_PACK_BYTES = 256 * 1024


def carry(tensors: Sequence[Any], source: str, target: str, name: str) -> list[Any]:
    """The same tensors on `target`; the small ones of them travel together."""
    shapes = [tensor.shape.as_list() for tensor in tensors]
    small = [i for i, tensor in enumerate(tensors) if prod(shapes[i]) * tensor.dtype.size <= _PACK_BYTES]
    moved: dict[int, Any] = {}
    if len(small) > 1:
        with tf.device(source):
            packed = tf.concat([tf.reshape(tensors[i], [-1]) for i in small], 0, name=f"{name}/pack")
        with tf.device(target):
            arrived = tf.identity(packed, name=f"{name}/packed")
            parts = tf.split(arrived, [prod(shapes[i]) for i in small], name=f"{name}/unpack")
            moved = {i: tf.reshape(part, shapes[i]) for i, part in zip(small, parts, strict=True)}
    with tf.device(target):
        return [moved[i] if i in moved else tf.identity(t, name=f"{name}/{i}") for i, t in enumerate(tensors)]
