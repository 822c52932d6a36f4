"""Transfers tensors between devices. Small tensors are packed into one, because each tensor needs a remote call."""

from collections.abc import Sequence
from math import prod
from typing import Any

import tensorflow as tf

_MAX_PACKED_BYTES = 256 * 1024
"""The largest tensor that is packed. Copying a larger one into the pack would cost more than a remote call."""


def transfer_tensors(tensors: Sequence[Any], source: str, target: str, name: str) -> list[Any]:
    """The same tensors on device `target`. `name` is the prefix of the ops in the graph."""
    shapes = [tensor.shape.as_list() for tensor in tensors]
    small = [i for i, tensor in enumerate(tensors) if prod(shapes[i]) * tensor.dtype.size <= _MAX_PACKED_BYTES]
    unpacked: dict[int, Any] = {}
    if len(small) > 1:
        with tf.device(source):
            packed = tf.concat([tf.reshape(tensors[i], [-1]) for i in small], 0, name=f"{name}/pack")
        with tf.device(target):
            received = tf.identity(packed, name=f"{name}/packed")
            parts = tf.split(received, [prod(shapes[i]) for i in small], name=f"{name}/unpack")
            unpacked = {i: tf.reshape(part, shapes[i]) for i, part in zip(small, parts, strict=True)}
    with tf.device(target):
        return [unpacked[i] if i in unpacked else tf.identity(t, name=f"{name}/{i}") for i, t in enumerate(tensors)]
