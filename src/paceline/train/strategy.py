"""The contract of a strategy: one worker's side of how gradients become updates, in some engine."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.train.batches import Images, Labels
from paceline.workloads.model import Parameters

Predictor = Callable[[Images], NDArray[np.float32]]


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
    """False: the run ended before this step's gradient was used; the step does not count."""


class WorkerStrategy(Protocol):
    """One worker of one strategy. Records its own phases; the loop around it does the rest."""

    def start(self) -> bool:
        """Right after the barrier: get what the first step needs; False if there is none to do."""
        ...

    def step(self, x: Images, y: Labels) -> Step: ...

    def stop_now(self, mine: bool, update: int) -> bool:
        """Whether the run ends after this update. `mine` is the chief's wish; all workers answer alike."""
        ...

    def finish(self) -> None:
        """After the last step: the chief comes back with the final parameters."""
        ...

    def predictor(self) -> Predictor:
        """Logits from images, under the parameters as they are now."""
        ...

    def parameters(self) -> Parameters: ...

    def close(self) -> None: ...


class Evaluation(msgspec.Struct, frozen=True):
    loss: float
    accuracy: float


def evaluate(strategy: WorkerStrategy, chunks: list[tuple[Images, Labels]]) -> Evaluation:
    """Mean loss and accuracy over a data set, the same arithmetic for every engine."""
    predict = strategy.predictor()
    total, correct, examples = 0.0, 0, 0
    for x, y in chunks:
        logits = predict(x)
        total += float(cross_entropy(logits, y).sum())
        correct += int((logits.argmax(1) == y).sum())
        examples += len(y)
    return Evaluation(total / examples, correct / examples)


def cross_entropy(logits: NDArray[np.float32], y: Labels) -> NDArray[Any]:
    shifted = logits - logits.max(1, keepdims=True)
    losses: NDArray[Any] = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y]
    return losses
