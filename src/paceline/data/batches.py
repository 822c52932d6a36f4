"""Which training examples a worker takes at which step; the order is the same for all engines and strategies.

An epoch is a permutation of the training set drawn from the seed. It is cut into global batches of
workers x batch examples, and worker i takes the i-th part of each. So n workers with batch b together take, at
one step, exactly the examples that a single worker with batch n*b takes.
"""

from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Batch(NamedTuple):
    """The examples of one step. The stream owns the arrays and overwrites them with the next batch."""

    inputs: tuple[Array, ...]
    """The inputs of the model; the first axis of each array is the examples."""
    target: Array
    """The expected output, usually labels."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Which training examples one worker takes."""

    batch: int
    """Examples per step of this worker."""
    workers: int
    index: int
    """The number of this worker, from 0."""
    seed: int


class Stream(Protocol):
    """The batches of one worker. Any step may be requested; the step after the last one is the fastest."""

    def at(self, step: int) -> Batch: ...


class Examples(Protocol):
    """The training and test data of a task."""

    def stream(self, share: Share) -> Stream: ...

    def test(self) -> list[Batch]:
        """All test examples, in batches small enough for one call of the model."""
        ...


def epoch_order(examples: int, share: Share, epoch: int) -> NDArray[np.intp]:
    """The indices of the examples that the worker takes; row s is step s of the epoch."""
    order = np.random.default_rng([share.seed, epoch]).permutation(examples)
    steps = examples // (share.batch * share.workers)
    whole_batches = order[: steps * share.batch * share.workers]
    return np.ascontiguousarray(whole_batches.reshape(steps, share.workers, share.batch)[:, share.index])


class ExampleOrder:
    """The indices of the examples that one worker takes at each step, over all epochs."""

    def __init__(self, examples: int, share: Share) -> None:
        self._examples, self._share = examples, share
        self._steps_per_epoch = examples // (share.batch * share.workers)
        self._epoch = -1
        self._indices = np.empty((0, share.batch), np.intp)

    def at(self, step: int) -> NDArray[np.intp]:
        epoch, row = divmod(step, self._steps_per_epoch)
        if epoch != self._epoch:
            self._indices = epoch_order(self._examples, self._share, epoch)
            self._epoch = epoch
        indices: NDArray[np.intp] = self._indices[row]
        return indices

    def epoch(self, step: int) -> int:
        """The epoch of a step, from 0."""
        return step // self._steps_per_epoch
