"""The contract of a strategy: one worker's side of how gradients become updates, in some engine."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec

from paceline.data.batches import Array, Batch
from paceline.train.checkpoint import TrainingState
from paceline.train.evaluation import Evaluation, EvaluationSums
from paceline.workloads.model import Loss
from paceline.workloads.parameters import Parameters

Predictor = Callable[..., Array]
"""A model's outputs from a batch's inputs; dropout is off."""


class Step(msgspec.Struct, frozen=True):
    """What a step gave."""

    loss: float
    """Mean over this worker's batch, before the update."""
    update: int
    """Global updates so far, this one included."""
    staleness: int = -1
    """Updates by others between this worker's pull and its push; -1 where it cannot be."""
    more: bool = True
    """False: the run is over and there is no next step."""
    applied: bool = True
    """False: the gradient was not used and the step does not count. It came too late for its update, or, if there
    is no next step, for the run."""


class WorkerStrategy(Protocol):
    """One worker of one strategy. Records its own phases; the loop around it does the rest."""

    def start(self) -> int | None:
        """Right after the barrier: get what the first step needs. The updates so far; None if no step is left."""
        ...

    def step(self, batch: Batch) -> Step: ...

    def stop_now(self, mine: bool, update: int) -> bool:
        """Whether the run ends after this update. `mine` is the chief's wish; all workers answer alike."""
        ...

    def finish(self) -> None:
        """After the last step: the chief comes back with the final parameters."""
        ...

    def predictor(self) -> Predictor:
        """The model under the parameters as they are now."""
        ...

    def parameters(self) -> Parameters: ...

    def state(self, update: int) -> TrainingState:
        """All that training goes on from, as of this update; where others do not wait, perhaps of a later one."""
        ...

    def close(self) -> None: ...


class SingleWorker:
    """What a worker without others has nothing to do for."""

    def stop_now(self, mine: bool, update: int) -> bool:
        return mine

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


@runtime_checkable
class Prefetches(Protocol):
    """A strategy that can use what it knows of the next batch."""

    def expect(self, upcoming: Batch) -> None:
        """Before each step: the batch of the step after it."""
        ...


@runtime_checkable
class SnapshotsState(Protocol):
    """A strategy that must know beforehand of which update the state will be asked for."""

    def snapshot_next_update(self) -> None:
        """Announce that `state` will be requested for the next update."""
        ...


@runtime_checkable
class HasServers(Protocol):
    """A strategy whose parameters lie on servers."""

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        """For each server, how many values of which parameters it holds."""
        ...


def evaluate(strategy: WorkerStrategy, loss: Loss, pieces: list[Batch]) -> Evaluation:
    predict, tally = strategy.predictor(), EvaluationSums(loss)
    for piece in pieces:
        tally.add(predict(*piece.inputs), piece)
    return tally.evaluation()
