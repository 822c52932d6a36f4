"""The neutral model in TensorFlow, as functions of its parameters' values."""

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from paceline.workloads.layers import (
    AveragePool,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    MaxPool,
    Relu,
    Sigmoid,
    SparseLinear,
    SpatialTransformer,
)
from paceline.workloads.model import AnyModel, Feed, Model

Tensor = Any


def outputs(model: AnyModel, inputs: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """What the model says; the masks of dropout are among the inputs, or dropout is off."""
    if not isinstance(model, Model):
        return model.outputs(inputs, values)  # type: ignore[attr-defined]  # A FunctionModel.
    x, *more = inputs
    if len(model.inputs) == 3:
        x = tf.reshape(x, [-1, *model.inputs])
    return _apply(model.layers, x, iter(values), iter(more))


def mean_loss(model: AnyModel, inputs: Sequence[Tensor], target: Tensor, values: Sequence[Tensor]) -> Tensor:
    found = outputs(model, inputs, values)
    match model.loss:
        case "softmax":
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=found))
        case "logistic":
            labels = tf.cast(target, tf.float32)
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=found[:, 0]))
        case "reconstruction":
            return _half_squared(found, inputs[0])
        case "squared":
            return _half_squared(found, target)


def _half_squared(found: Tensor, wanted: Tensor) -> Tensor:
    difference = found - tf.reshape(wanted, tf.shape(found))
    return tf.reduce_sum(tf.square(difference)) / (2 * tf.cast(tf.shape(found)[0], tf.float32))


def placeholder_of(target: Feed) -> Tensor:
    return tf.compat.v1.placeholder(target.dtype, [None, *target.shape], name="target")


def placeholders(feeds: Sequence[Feed]) -> list[Tensor]:
    v1 = tf.compat.v1
    return [
        v1.placeholder(feed.dtype, [None, *feed.shape], name=f"input{number}" if number else "x")
        for number, feed in enumerate(feeds)
    ]


def _apply(layers: Sequence[Layer], x: Tensor, values: Iterator[Tensor], more: Iterator[Tensor]) -> Tensor:
    for layer in layers:
        match layer:
            case Dense():
                weight, bias = next(values), next(values)
                x = tf.nn.bias_add(tf.matmul(x, weight), bias)
            case Conv(_, _, stride, padding):
                # Kept as [filters, channels, height, width]; this framework wants the filters last.
                weight, bias = tf.transpose(next(values), [2, 3, 1, 0]), next(values)
                if padding:
                    x = tf.pad(x, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
                x = tf.nn.bias_add(tf.nn.conv2d(x, weight, stride, "VALID"), bias)
            case MaxPool(size, stride):
                x = tf.nn.max_pool2d(x, size, stride, "VALID")
            case AveragePool(size, stride):
                x = tf.nn.avg_pool2d(x, size, stride, "VALID")
            case Relu():
                x = tf.nn.relu(x)
            case Sigmoid():
                x = tf.sigmoid(x)
            case Flatten():
                if len(x.shape) == 4:
                    x = tf.transpose(x, [0, 3, 1, 2])
                x = tf.reshape(x, [-1, _size(x)])
            case Dropout(rate):
                if (mask := next(more, None)) is not None:
                    x = x * tf.cast(mask, tf.float32) * (1 / (1 - rate))
            case SpatialTransformer():
                x = _look(layer, x, values)
            case SparseLinear():
                weight, bias = next(values), next(values)
                # Two dimensions: the rows have been looked up already, where the weights are.
                rows = weight if len(weight.shape) == 2 else tf.gather(weight, x)
                x = tf.expand_dims(tf.reduce_sum(rows * next(more), 1) + bias, 1)
    return x


def _size(x: Tensor) -> int:
    size = 1
    for dimension in x.shape[1:]:
        size *= int(dimension)
    return size


def _look(layer: SpatialTransformer, image: Tensor, values: Iterator[Tensor]) -> Tensor:
    found = _apply(layer.localisation, image, values, iter(()))
    weight, bias = next(values), next(values)
    affine = tf.reshape(tf.nn.bias_add(tf.matmul(found, weight), bias), [-1, 2, 3])
    line = tf.linspace(-1.0, 1.0, layer.size)
    across, down = tf.meshgrid(line, line)
    points = tf.stack([tf.reshape(across, [-1]), tf.reshape(down, [-1]), tf.ones([layer.size**2])])
    # [examples, 2, points]: where in the image each point of the output looks, from -1 to 1.
    where = tf.einsum("bij,jp->bip", affine, points)
    _, height, width, channels = image.shape
    sampled = _sample(image, (where[:, 0] + 1) * ((width - 1) / 2), (where[:, 1] + 1) * ((height - 1) / 2))
    return tf.reshape(sampled, [-1, layer.size, layer.size, int(channels)])


def _sample(image: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Between pixels by bilinear weights; black outside."""
    _, height, width, channels = image.shape
    pixels = tf.reshape(image, [-1, int(height) * int(width), int(channels)])
    left, top = tf.floor(x), tf.floor(y)
    total = 0.0
    for dx in (0, 1):
        for dy in (0, 1):
            column, row = left + dx, top + dy
            weight = (1 - tf.abs(x - column)) * (1 - tf.abs(y - row))
            inside = (column >= 0) & (column <= width - 1) & (row >= 0) & (row <= height - 1)
            at = tf.clip_by_value(row, 0, height - 1) * float(width) + tf.clip_by_value(column, 0, width - 1)
            corner = tf.gather(pixels, tf.cast(at, tf.int32), batch_dims=1)
            total += corner * tf.expand_dims(weight * tf.cast(inside, tf.float32), 2)
    return total
