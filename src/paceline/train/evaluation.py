"""Loss and accuracy of a model on a test set, computed in NumPy so that all engines use the same arithmetic."""

import msgspec
import numpy as np

from paceline.data.batches import Array, Batch
from paceline.workloads.model import CLASSIFICATION_LOSSES, Loss


class Evaluation(msgspec.Struct, frozen=True):
    loss: float
    """Mean over the examples."""
    accuracy: float | None = None
    """None if the loss is not one of a classification."""
    auc: float | None = None
    """Area under the ROC curve, for binary classification only."""


class EvaluationSums:
    """Sums over the batches of a test set."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._total, self._correct, self._examples = 0.0, 0, 0
        self._scores: list[tuple[Array, Array]] = []

    def add(self, outputs: Array, batch: Batch) -> None:
        labels = batch.target
        match self._loss:
            case "softmax":
                self._total += float(cross_entropy(outputs, labels).sum())
                self._correct += int((outputs.argmax(1) == labels).sum())
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
        self._examples += len(outputs)

    def evaluation(self) -> Evaluation:
        loss = self._total / self._examples
        if self._loss not in CLASSIFICATION_LOSSES:
            return Evaluation(loss)
        return Evaluation(loss, self._correct / self._examples, self._auc())

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
