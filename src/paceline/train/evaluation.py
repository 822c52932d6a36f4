"""Loss and metrics of a model on a test set, computed in NumPy so that all engines use the same arithmetic."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
import numpy as np

from paceline.data.batches import Array, Batch
from paceline.workloads.model import CLASSIFICATION_LOSSES, Loss, LossFunction
from paceline.workloads.outputs import main_output

_TOP = 5
_LARGEST_LOSS = 700.0
"""The exponential of a larger loss is no float."""
BatchLoss = Callable[[Any, Array], float]
"""(outputs as arrays, target) -> mean loss of a batch, by the user's function."""


class Evaluation(msgspec.Struct, frozen=True):
    loss: float | None
    """Mean over the examples, or over the tokens of sequences; None if the user's code evaluates without a loss."""
    accuracy: float | None = None
    """None if the loss is not one of a classification."""
    auc: float | None = None
    """Area under the ROC curve, for binary classification only."""
    metrics: Mapping[str, float] = {}
    """Other metrics by name."""

    @classmethod
    def of(cls, metrics: Mapping[str, float]) -> "Evaluation":
        """The evaluation with these metrics by name, as a user's code returns them."""
        rest = {name: float(value) for name, value in metrics.items()}
        loss, accuracy, auc = (rest.pop(name, None) for name in ("loss", "accuracy", "auc"))
        return cls(loss, accuracy, auc, rest)

    @property
    def qualities(self) -> dict[str, float]:
        """Everything that stop rules can refer to, by name."""
        found = {"loss": self.loss, "accuracy": self.accuracy, "auc": self.auc, **self.metrics}
        return {name: value for name, value in found.items() if value is not None}


class EvaluationSums:
    """Sums over the batches of a test set. `metrics` are the names of metrics that are computed only on request."""

    def __init__(
        self, loss: Loss | LossFunction, metrics: Collection[str] = (), batch_loss: BatchLoss | None = None
    ) -> None:
        self._loss, self._metrics, self._batch_loss = loss, metrics, batch_loss
        self._total, self._correct, self._in_top, self._count = 0.0, 0, 0, 0
        self._scores: list[tuple[Array, Array]] = []

    def add(self, outputs: Any, batch: Batch) -> None:
        labels = batch.target
        if self._batch_loss and not isinstance(self._loss, str):
            self._total += self._batch_loss(outputs, labels) * len(labels)
            self._count += len(labels)
            return
        outputs = main_output(outputs)
        match self._loss:
            case "softmax":
                self._add_classes(outputs, labels)
                return
            case "logistic":
                scores = outputs.reshape(-1).astype(np.float64)
                self._total += float((np.logaddexp(0, scores) - scores * labels).sum())
                self._correct += int(((scores > 0) == (labels > 0)).sum())
                self._scores.append((scores, labels.copy()))
            case "reconstruction":
                difference = (outputs - batch.inputs[0]).astype(np.float64)
                self._total += float(np.square(difference).sum()) / 2
            case "squared":
                difference = outputs.reshape(labels.shape).astype(np.float64) - labels
                self._total += float(np.square(difference).sum()) / 2
        self._count += len(outputs)

    def _add_classes(self, outputs: Array, labels: Array) -> None:
        """Add the outputs of examples, or of the tokens of sequences; those with a label below 0 do not count."""
        if outputs.ndim > 2:
            outputs, labels = outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1)
        if labels.size and labels.min() < 0:
            outputs, labels = outputs[labels >= 0], labels[labels >= 0]
        self._total += float(cross_entropy(outputs, labels).sum())
        self._correct += int((outputs.argmax(1) == labels).sum())
        if "top5" in self._metrics:
            own = outputs[np.arange(len(labels)), labels]
            self._in_top += int(((outputs > own[:, None]).sum(1) < _TOP).sum())
        self._count += len(labels)

    def evaluation(self) -> Evaluation:
        loss = self._total / self._count if self._count else math.nan
        if self._loss not in CLASSIFICATION_LOSSES:
            return Evaluation(loss)
        metrics = {}
        if "top5" in self._metrics:
            metrics["top5"] = self._in_top / max(1, self._count)
        if "perplexity" in self._metrics:
            metrics["perplexity"] = math.exp(min(loss, _LARGEST_LOSS))
        return Evaluation(loss, self._correct / max(1, self._count), self._auc(), metrics)

    def _auc(self) -> float | None:
        if not self._scores:
            return None
        scores, labels = (np.concatenate(parts) for parts in zip(*self._scores, strict=True))
        return area_under_curve(scores, labels)


def cross_entropy(logits: Array, labels: Array) -> Array:
    shifted = logits - logits.max(1, keepdims=True)
    losses: Array = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(labels)), labels]
    return losses


def area_under_curve(scores: Array, labels: Array) -> float | None:
    """Area under the ROC curve from the ranks of the positive examples. None if all labels are equal.

    Equal scores share their mean rank.
    """
    ones = int((labels > 0).sum())
    zeros = len(labels) - ones
    if not ones or not zeros:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[labels > 0].sum() - ones * (ones + 1) / 2) / (ones * zeros))
