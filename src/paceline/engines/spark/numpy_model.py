"""Models of engine-neutral layers in NumPy: outputs, and the gradient of the loss.

Only layers are supported that are a few lines in NumPy; the descriptor of the engine lists them.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from paceline.data.batches import Array, Batch
from paceline.train.evaluation import cross_entropy
from paceline.workloads.layers import Dense, Dropout, Layer, Relu, Sigmoid, Tanh
from paceline.workloads.model import Loss, Model
from paceline.workloads.parameters import Parameters, Vector, views


class LossGradient(NamedTuple):
    loss: float
    """Mean over the examples of the batch."""
    gradient: Vector
    """Of that mean, in the order of the parameters."""


class NumpyModel:
    """A dense model: every parameter is used by every example."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def outputs(self, values: Vector, inputs: Sequence[Array]) -> Array:
        """The outputs without dropout."""
        if sparse := self._model.sparse:
            return sparse_scores(values[: sparse.features], values[-1], *inputs[:2])
        rows = self._rows(inputs[0])
        parameters = views(values, self._model.parameters)
        for number, layer in enumerate(self._model.layers):
            rows = _forward(layer, number, rows, parameters, None)
        return rows

    def loss_and_gradient(self, values: Vector, batch: Batch) -> LossGradient:
        parameters = views(values, self._model.parameters)
        gradient = np.zeros_like(values)
        by_name = views(gradient, self._model.parameters)
        if sparse := self._model.sparse:
            indices, features = batch.inputs[:2]
            scores = sparse_scores(values[: sparse.features], values[-1], indices, features)
            loss, slopes = _loss_and_slope("logistic", scores, batch)
            np.add.at(gradient, indices.reshape(-1), (slopes * features).reshape(-1))
            gradient[-1] = slopes.sum()
            return LossGradient(loss, gradient)
        masks = iter(_scaled_masks(self._model, batch))
        layers, rows = self._model.layers, [self._rows(batch.inputs[0])]
        used_masks = [next(masks) if isinstance(layer, Dropout) else None for layer in layers]
        for number, layer in enumerate(layers):
            rows.append(_forward(layer, number, rows[-1], parameters, used_masks[number]))
        loss, slope = _loss_and_slope(self._model.loss, rows[-1], batch)
        for number in reversed(range(len(layers))):
            before, after = rows[number], rows[number + 1]
            slope = _backward(layers[number], number, before, after, slope, parameters, by_name, used_masks[number])
        return LossGradient(loss, gradient)

    def _rows(self, inputs: Array) -> Array:
        return inputs.reshape(len(inputs), prod(self._model.inputs))


def sparse_scores(weights: Vector, bias: float, indices: Array, features: Array) -> Array:
    """The score of each example of a sparse model."""
    scores: Array = ((weights[indices] * features).sum(axis=1) + bias)[:, None]
    return scores


def sparse_loss_and_slopes(scores: Array, batch: Batch) -> tuple[float, Array]:
    """The mean logistic loss, and its derivative by each score."""
    return _loss_and_slope("logistic", scores, batch)


def _scaled_masks(model: Model, batch: Batch) -> list[Array]:
    """What each dropout layer multiplies its input with."""
    masks = batch.inputs[len(model.data_feeds) :]
    return [
        mask.astype(np.float32) * np.float32(1 / (1 - rate))
        for mask, rate in zip(masks, model.dropout_rates, strict=True)
    ]


def _forward(layer: Layer, number: int, rows: Array, parameters: Parameters, mask: Array | None) -> Array:
    match layer:
        case Dense():
            return rows @ parameters[f"{number}.weight"] + parameters[f"{number}.bias"]
        case Relu():
            return np.maximum(rows, 0)
        case Sigmoid():
            return _sigmoid(rows)
        case Tanh():
            return np.tanh(rows)
        case Dropout():
            return rows if mask is None else rows * mask
    raise NotImplementedError(f"{type(layer).__name__} has no NumPy form")


def _backward(
    layer: Layer,
    number: int,
    before: Array,
    after: Array,
    slope: Array,
    parameters: Parameters,
    gradient: Parameters,
    mask: Array | None,
) -> Array:
    """Write the gradient of a layer's parameters; returns the derivative by the layer's input."""
    match layer:
        case Dense():
            np.matmul(before.T, slope, out=gradient[f"{number}.weight"])
            gradient[f"{number}.bias"][:] = slope.sum(axis=0)
            # The first layer's input is data.
            return slope @ parameters[f"{number}.weight"].T if number else slope
        case Relu():
            return slope * (before > 0)
        case Sigmoid():
            return slope * after * (1 - after)
        case Tanh():
            return slope * (1 - after * after)
        case Dropout():
            return slope if mask is None else slope * mask
    raise NotImplementedError(f"{type(layer).__name__} has no NumPy form")


def _loss_and_slope(loss: Loss, outputs: Array, batch: Batch) -> tuple[float, Array]:
    """The mean loss, and its derivative by the outputs."""
    examples, target = np.float32(len(outputs)), batch.target
    match loss:
        case "softmax":
            shifted = outputs - outputs.max(1, keepdims=True)
            slope = np.exp(shifted)
            slope /= slope.sum(1, keepdims=True)
            slope[np.arange(len(outputs)), target] -= 1
            return float(cross_entropy(outputs, target).mean()), slope / examples
        case "logistic":
            scores, labels = outputs.reshape(-1), target.reshape(-1)
            mean = float((np.logaddexp(0, scores) - scores * labels).mean())
            return mean, ((_sigmoid(scores) - labels.astype(np.float32)) / examples).reshape(outputs.shape)
        case "reconstruction":
            difference = outputs - batch.inputs[0].reshape(outputs.shape)
        case "squared":
            difference = outputs - target.reshape(outputs.shape)
    return float(np.square(difference).sum() / examples) / 2, difference / examples


def _sigmoid(values: Array) -> Array:
    # Without overflow: exp() only gets values that are not positive.
    small = np.exp(-np.abs(values))
    sigmoid: Array = np.where(values >= 0, 1 / (1 + small), small / (1 + small)).astype(np.float32)
    return sigmoid
