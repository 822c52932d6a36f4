"""The number of examples in a batch, whatever the script's data loader makes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

_DEPTH = 3


def batch_size(batch: Any, depth: int = _DEPTH) -> int:
    """The first dimension of the first array in the batch; 0 if there is none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if not depth:
        return 0
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        for item in batch[:4]:
            if size := batch_size(item, depth - 1):
                return size
    return 0
