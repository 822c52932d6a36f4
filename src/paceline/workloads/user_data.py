"""Reads the batches of a user's own workload, from any step on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from paceline.data.batches import Array, Batch, Examples, Share
from paceline.errors import WorkloadError
from paceline.workloads.workload import BatchOfArrays, Workload

TARGET_NAMES = ("labels", "label", "targets", "target", "y")
"""The key of the target in a batch that is a dict."""


def user_examples(workload: Workload) -> Examples:
    """The data set of a workload that uses no built-in one."""
    return workload.data() if workload.data else UserExamples(workload)


class UserExamples:
    """A data set made from the functions `train` and `test` of a user's workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    def stream(self, share: Share) -> "UserStream":
        assert self._workload.train
        return UserStream(self._workload.train, share)

    def test(self) -> list[Batch]:
        return [_batch(arrays) for arrays in self._workload.test()] if self._workload.test else []

    def input_names(self, share: Share) -> tuple[str, ...]:
        """The names of the inputs if batches are dicts; empty if they are tuples."""
        assert self._workload.train
        first = next(iter(self._workload.train(share)), ())
        return tuple(name for name in first if name not in TARGET_NAMES) if isinstance(first, Mapping) else ()


class UserStream:
    """The batches of the user's iterable in its order; at its end a new one is created for the next epoch.

    Step n is batch n, counted over all epochs. To start at a later step, the batches before it are read from a sequence
    by their number, and drawn and dropped from any other iterable.
    """

    def __init__(self, train: Callable[[Share], Iterable[BatchOfArrays]], share: Share) -> None:
        self._train, self._share = train, share
        self._batches: _Drawn | _Indexed | None = None
        """The batches of the current epoch; None before the first."""
        self._first = 0
        """The step of the first batch of the current epoch."""
        self._last: tuple[int, Batch] | None = None
        """The last step and its batch: the same step may be requested again."""

    def at(self, step: int) -> Batch:
        if self._last is None or self._last[0] != step:
            self._last = (step, self._check(self._find(step)))
        return self._last[1]

    def _find(self, step: int) -> BatchOfArrays:
        if self._batches is None or step < self._first + self._batches.drawn:
            # A step back: an iterable cannot return to an earlier batch, so the first epoch starts again.
            self._first, self._batches = 0, self._new_epoch()
        while (arrays := self._batches.at(step - self._first)) is None:
            if not self._batches.length:
                raise WorkloadError("train returned no batches: it must return an iterable of tuples of NumPy arrays")
            self._first += self._batches.length
            self._batches = self._new_epoch()
        return arrays

    def _new_epoch(self) -> "_Drawn | _Indexed":
        batches = self._train(self._share)
        return _Indexed(batches) if _is_sequence(batches) else _Drawn(batches)

    def _check(self, arrays: BatchOfArrays) -> Batch:
        batch = _batch(arrays)
        if not len(batch.target):
            raise WorkloadError("train returned a batch of 0 examples: it must have at least one")
        return batch


class _Drawn:
    """The batches of one epoch, from an iterable that can only be read in order."""

    def __init__(self, batches: Iterable[BatchOfArrays]) -> None:
        self._batches = iter(batches)
        self.drawn = 0
        """How many batches were drawn, so the number of the next one."""
        self.length: int | None = None
        """How many batches the epoch has; None until its end was reached."""

    def at(self, number: int) -> BatchOfArrays | None:
        """The batch with this number, which must not be drawn yet; None if the epoch has fewer batches."""
        for arrays in self._batches:
            self.drawn += 1
            if self.drawn > number:
                return arrays
        self.length = self.drawn
        return None


class _Indexed:
    """The batches of one epoch, from a sequence of which any one can be read."""

    drawn = 0
    """No batch is out of reach."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self.length: int | None = len(batches)

    def at(self, number: int) -> BatchOfArrays | None:
        """The batch with this number; None if the epoch has fewer batches."""
        if self.length is None or number >= self.length:
            return None
        arrays: BatchOfArrays = self._batches[number]
        return arrays


def _is_sequence(batches: object) -> bool:
    """Whether the batches can be read by number, as from a list or a map-style data set of torch."""
    return hasattr(batches, "__len__") and hasattr(batches, "__getitem__") and not isinstance(batches, Mapping)


def _batch(arrays: BatchOfArrays | Mapping[str, Array]) -> Batch:
    if isinstance(arrays, Mapping):
        arrays = _with_target_last(arrays)
    if not isinstance(arrays, tuple) or len(arrays) < 2:
        raise WorkloadError("a batch must be a tuple of at least two NumPy arrays: the inputs, and the target last")
    *inputs, target = (_array(array) for array in arrays)
    if len({len(array) for array in (*inputs, target)}) != 1:
        lengths = [len(array) for array in (*inputs, target)]
        raise WorkloadError(
            f"the arrays of a batch have different lengths, {lengths}: the first axis must be the examples"
        )
    return Batch(tuple(inputs), target)


def _with_target_last(arrays: Mapping[str, Array]) -> BatchOfArrays:
    """The arrays of a dict, with the target last."""
    targets = [name for name in TARGET_NAMES if name in arrays]
    if len(targets) != 1:
        names = ", ".join(map(str, arrays))
        raise WorkloadError(
            f"a batch with the keys {names} has {len(targets)} targets: it must have exactly one of "
            f"{', '.join(TARGET_NAMES)}"
        )
    return (*(array for name, array in arrays.items() if name != targets[0]), arrays[targets[0]])


def _array(array: Array) -> Array:
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise WorkloadError(
            f"a batch contains a {type(array).__name__}: it must contain only NumPy arrays with at least one axis"
        )
    # The types that frameworks compute with. Frameworks also need writable and contiguous arrays.
    dtype = np.float32 if array.dtype.kind == "f" else np.int64
    return np.require(array, dtype, ["C", "W"])
