"""Which examples a worker takes at which step: one order for all engines and strategies.

An epoch is a permutation of the training set drawn from the seed. It is cut into global batches of
workers x batch examples, and worker i takes the i-th part of each. So n workers with batch b see, in
one round, exactly what a single worker with batch n*b sees in one step.
"""

from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Batch(NamedTuple):
    """What a step is made of. Its arrays belong to whoever handed it out, and change with the next one."""

    inputs: tuple[Array, ...]
    """What the model takes, the examples along the first axis of each."""
    target: Array
    """What it should say: labels, mostly."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the training examples is a worker's."""

    batch: int
    workers: int
    index: int
    seed: int


class Stream(Protocol):
    """One worker's batches. Any step may be asked for, but the next one is what it is made for."""

    def at(self, step: int) -> Batch: ...


class Examples(Protocol):
    """Training and test data as a task sees it."""

    def stream(self, share: Share) -> Stream: ...

    def test(self) -> list[Batch]:
        """All test examples, in pieces that a model can take at once."""
        ...


def epoch_order(examples: int, share: Share, epoch: int) -> NDArray[np.intp]:
    """Row s is what the worker takes at step s of the epoch."""
    order = np.random.default_rng([share.seed, epoch]).permutation(examples)
    steps = examples // (share.batch * share.workers)
    taken = order[: steps * share.batch * share.workers]
    return np.ascontiguousarray(taken.reshape(steps, share.workers, share.batch)[:, share.index])


class Order:
    """The rows a worker takes, step after step and epoch after epoch."""

    def __init__(self, examples: int, share: Share) -> None:
        self._examples, self._share = examples, share
        self._steps = examples // (share.batch * share.workers)
        self._epoch = -1
        self._rows = np.empty((0, share.batch), np.intp)

    def at(self, step: int) -> NDArray[np.intp]:
        epoch, row = divmod(step, self._steps)
        if epoch != self._epoch:
            self._rows = epoch_order(self._examples, self._share, epoch)
            self._epoch = epoch
        chosen: NDArray[np.intp] = self._rows[row]
        return chosen

    def epoch(self, step: int) -> int:
        """How often the examples were gone through before that step."""
        return step // self._steps
