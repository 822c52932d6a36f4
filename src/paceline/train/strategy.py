"""The contract that every strategy implements in every engine: the worker's part of turning gradients into updates."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from paceline.data.batches import Batch
from paceline.errors import WorkloadError
from paceline.train.checkpoint import TrainingState
from paceline.train.evaluation import Evaluation, EvaluationSums
from paceline.workloads.model import AnyModel
from paceline.workloads.parameters import Parameters

Predictor = Callable[..., Any]
"""Computes the outputs of the model from the inputs of a batch, without dropout: an array, or of a user's model a tuple
or dict of arrays."""

UserEvaluation = Callable[[Callable[..., Any], list[tuple[Any, ...]]], Mapping[str, float]]
"""A user's code that evaluates: (predict, batches) -> metrics by name."""


class Step(msgspec.Struct, frozen=True):
    """The result of one step."""

    loss: float
    """Mean over this worker's batch, before the update."""
    update: int
    """Number of global updates so far, including this one."""
    staleness: int = -1
    """Updates by other workers between this worker's pull and its push; -1 in synchronous strategies."""
    more: bool = True
    """Whether there is a next step. False: the run is over."""
    applied: bool = True
    """Whether the gradient was used. False: it arrived too late for its update or after the end of the run, so the
    step does not count."""
    has_global_parameters: bool = True
    """Whether the worker has the global parameters after this step, which can be evaluated and stored. False between
    two exchanges of a strategy whose workers train alone for several steps."""


class Exchanged(msgspec.Struct):
    """Bytes of gradients, parameters and row indices that a worker exchanged with other tasks, whatever carried them:
    shared memory, pipes or sockets. It is a counter of payload, without headers and encryption."""

    sent: int = 0
    received: int = 0

    def add_allreduce(self, size: int, workers: int) -> None:
        """Count the sum of a vector of `size` bytes over all workers: with the ring algorithm each worker sends and
        receives all parts but its own, once to add them up and once to distribute the sums."""
        part = 2 * size * (workers - 1) // workers
        self.sent += part
        self.received += part

    def since(self, before: "Exchanged") -> "Exchanged":
        return Exchanged(self.sent - before.sent, self.received - before.received)


class HoldsModel(Protocol):
    """What evaluation and checkpoints need: access to the current parameters."""

    def predictor(self) -> Predictor:
        """The model with its current parameters."""
        ...

    def parameters(self) -> Parameters: ...

    def state(self, update: int) -> TrainingState:
        """The state for a checkpoint as of `update`; in asynchronous strategies possibly of a later update."""
        ...


class WorkerStrategy(HoldsModel, Protocol):
    """One worker of a strategy. It records the phases of its steps; the training loop does the rest."""

    def start(self) -> int | None:
        """Called right after the barrier: fetch what the first step needs.

        Returns the number of updates so far; None if there is no step left to make.
        """
        ...

    def step(self, batch: Batch) -> Step: ...

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        """Whether the run ends after this update; all workers return the same. Only the chief's argument counts."""
        ...

    def finish(self) -> None:
        """Called after the last step. In the chief, it returns once the final parameters are available."""
        ...

    def close(self) -> None: ...


class SingleWorker:
    """The methods that need no communication when there is only one worker."""

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return chief_wants_stop

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


@runtime_checkable
class Prefetches(Protocol):
    """A strategy that can make use of the next batch before its step."""

    def prefetch(self, upcoming: Batch) -> None:
        """Called before each step with the batch of the following step."""
        ...


@runtime_checkable
class SnapshotsState(Protocol):
    """A strategy that must be told in advance at which update a checkpoint will be taken."""

    def snapshot_next_update(self) -> None:
        """A checkpoint will be taken at the next update."""
        ...


@runtime_checkable
class CountsExchange(Protocol):
    """A strategy that counts what its worker exchanges with other tasks."""

    @property
    def exchanged(self) -> Exchanged:
        """Since this worker was set up."""
        ...


@runtime_checkable
class HasServers(Protocol):
    """A strategy whose parameters are on parameter servers."""

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        """Server -> parameter name -> number of its values on that server."""
        ...


def evaluate(
    strategy: HoldsModel,
    model: AnyModel,
    batches: list[Batch],
    metrics: Collection[str] = (),
    user_code: UserEvaluation | None = None,
) -> Evaluation:
    """Loss and metrics of the current parameters over a test set, by the user's code if there is any."""
    predict = strategy.predictor()
    if user_code:
        return _evaluate_by(user_code, predict, batches)
    sums = EvaluationSums(model.loss, metrics, getattr(model, "batch_loss", None))
    for batch in batches:
        sums.add(predict(*batch.inputs), batch)
    return sums.evaluation()


def _evaluate_by(user_code: UserEvaluation, predict: Predictor, batches: list[Batch]) -> Evaluation:
    found = user_code(predict, [(*batch.inputs, batch.target) for batch in batches])
    try:
        return Evaluation.of(found)
    except (AttributeError, TypeError, ValueError):
        raise WorkloadError(
            f"evaluate returned {type(found).__name__}, which is not a dict of numbers: return e.g. "
            "{'loss': 0.5, 'accuracy': 0.9}"
        ) from None
