"""The number of examples in a batch, whatever the script's data loader makes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

_DEPTH = 3
_MOST_ITEMS = 4


def batch_size(batch: Any) -> int:
    """The first dimension of the first array in the batch; 0 if there is none."""
    kind = type(batch)
    try:
        # Most batches; this is called several times per step, and what follows takes ten times longer.
        if (kind is list or kind is tuple) and (shape := getattr(batch[0], "shape", None)):
            return int(shape[0])
        return _search(batch, _DEPTH)
    except Exception:
        return 0


def _search(batch: Any, depth: int) -> int:
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if not depth:
        return 0
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        for item in batch[:_MOST_ITEMS]:
            if size := _search(item, depth - 1):
                return size
    return 0
