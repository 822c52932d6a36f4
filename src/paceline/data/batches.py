"""Which training examples a worker takes at which step; the order is the same for all engines and strategies.

A pass over the training set is a permutation drawn from the seed. It is cut into global batches of workers x batch
examples, and worker i takes the i-th part of each. So n workers with batch b together take, at one step, exactly the
examples that a single worker with batch n*b takes. `Share` has the options that change this.
"""

from typing import Any, Literal, NamedTuple, Protocol

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
    shard: Literal["global", "worker"] = "global"
    """worker: this worker takes only its own part of the training set, every n-th example."""
    shuffle_buffer: int | None = None
    """Examples in the buffer from which the next one is drawn; 0: in order; None: a permutation of all."""
    steps_per_epoch: int | None = None
    """Steps of this worker in an epoch; None: one pass over the training set."""


class Stream(Protocol):
    """The batches of one worker. Any step may be requested; the step after the last one is the fastest."""

    def at(self, step: int) -> Batch: ...


class Examples(Protocol):
    """The training and test data of a task."""

    def stream(self, share: Share) -> Stream: ...

    def test(self) -> list[Batch]:
        """All test examples, in batches small enough for one call of the model."""
        ...


def pass_order(examples: int, share: Share, number: int) -> NDArray[np.intp]:
    """The indices of the examples that the worker takes in this pass over the training set; row s is step s."""
    steps = examples // (share.batch * share.workers)
    if share.shard == "worker":
        own = np.arange(share.index, examples, share.workers)
        order = own[_shuffled(len(own), share.shuffle_buffer, [share.seed, number, share.index])]
        return order[: steps * share.batch].reshape(steps, share.batch)
    order = _shuffled(examples, share.shuffle_buffer, [share.seed, number])
    whole_batches = order[: steps * share.batch * share.workers]
    return np.ascontiguousarray(whole_batches.reshape(steps, share.workers, share.batch)[:, share.index])


def _shuffled(count: int, buffer: int | None, seed: list[int]) -> NDArray[np.intp]:
    """The numbers below `count` in the order in which they are drawn."""
    if buffer == 0:
        return np.arange(count)
    random = np.random.default_rng(seed)
    if buffer is None or buffer >= count:
        return random.permutation(count)
    # The buffer holds the first numbers; each draw takes one of them at random and puts the next number in its place.
    kept = list(range(buffer))
    drawn = []
    for following, place in enumerate(random.integers(buffer, size=count - buffer).tolist(), start=buffer):
        drawn.append(kept[place])
        kept[place] = following
    return np.array(drawn + [kept[place] for place in random.permutation(buffer)], np.intp)


class ExampleOrder:
    """The indices of the examples that one worker takes at each step, over all epochs."""

    def __init__(self, examples: int, share: Share) -> None:
        self._examples, self._share = examples, share
        self._steps_per_pass = examples // (share.batch * share.workers)
        self._steps_per_epoch = share.steps_per_epoch or self._steps_per_pass
        self._passes_per_epoch = -(-self._steps_per_epoch // self._steps_per_pass)
        self._pass = -1
        self._indices = np.empty((0, share.batch), np.intp)

    def at(self, step: int) -> NDArray[np.intp]:
        number, row = self._pass_and_row(step)
        if number != self._pass:
            self._indices = pass_order(self._examples, self._share, number)
            self._pass = number
        indices: NDArray[np.intp] = self._indices[row]
        return indices

    def pass_number(self, step: int) -> int:
        """The pass over the training set that a step belongs to, from 0."""
        return self._pass_and_row(step)[0]

    def _pass_and_row(self, step: int) -> tuple[int, int]:
        """The pass of a step, and the number of the step in this pass. An epoch begins with a new pass."""
        epoch, in_epoch = divmod(step, self._steps_per_epoch)
        in_passes, row = divmod(in_epoch, self._steps_per_pass)
        return epoch * self._passes_per_epoch + in_passes, row
