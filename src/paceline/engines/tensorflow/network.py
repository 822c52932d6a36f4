"""Implements framework-neutral models and losses in TensorFlow, as functions of the values of the parameters."""

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from paceline.workloads.layers import (
    NORM_EPSILON,
    AveragePool,
    Conv,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    MaxPool,
    Relu,
    Residual,
    Sigmoid,
    SparseLinear,
    SpatialTransformer,
    Tanh,
    TransformerBlock,
    shortcut_stride,
)
from paceline.workloads.model import AnyModel, Feed, Model
from paceline.workloads.outputs import main_output

Tensor = Any
_HIDDEN = -1e9
"""The score of a token that attention must not see."""


def outputs(model: AnyModel, inputs: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """The outputs of the model. Dropout is on only if the inputs include its masks."""
    if not isinstance(model, Model):
        return model.outputs(inputs, values)  # type: ignore[attr-defined]  # A FunctionModel.
    x, *extra_inputs = inputs
    if len(model.inputs) == 3:
        x = tf.reshape(x, [-1, *model.inputs])
    return _apply(model.layers, x, iter(values), iter(extra_inputs))


def mean_loss(model: AnyModel, inputs: Sequence[Tensor], target: Tensor, values: Sequence[Tensor]) -> Tensor:
    """The loss of a batch, as the mean over its examples; computed by the user's functions if there are any."""
    if not isinstance(model, Model) and (loss := model.user_loss(inputs, target, values)) is not None:  # type: ignore[attr-defined]
        return loss
    predictions = main_output(outputs(model, inputs, values))
    match model.loss:
        case "softmax":
            if len(predictions.shape) > 2 or not isinstance(model, Model):
                return _mean_cross_entropy(predictions, target)
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=predictions))
        case "logistic":
            labels = tf.cast(target, tf.float32)
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=predictions[:, 0]))
        case "reconstruction":
            return _half_squared_error(predictions, inputs[0])
        case "squared":
            return _half_squared_error(predictions, target)


def _mean_cross_entropy(predictions: Tensor, target: Tensor) -> Tensor:
    """The mean over the examples, or over the tokens of sequences, that have a label; a label below 0 is none."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.maximum(target, 0), logits=predictions)
    counts = tf.cast(target >= 0, losses.dtype)
    return tf.reduce_sum(losses * counts) / tf.reduce_sum(counts)


def _half_squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """Half of the squared error, summed over the outputs of an example and averaged over the examples."""
    difference = predictions - tf.reshape(targets, tf.shape(predictions))
    return tf.reduce_sum(tf.square(difference)) / (2 * tf.cast(tf.shape(predictions)[0], tf.float32))


def target_placeholder(target: Feed) -> Tensor:
    return tf.compat.v1.placeholder(target.dtype, [None, *target.shape], name="target")


def placeholders(feeds: Sequence[Feed]) -> list[Tensor]:
    v1 = tf.compat.v1
    return [
        v1.placeholder(feed.dtype, [None, *feed.shape], name=f"input{number}" if number else "x")
        for number, feed in enumerate(feeds)
    ]


def _apply(layers: Sequence[Layer], x: Tensor, values: Iterator[Tensor], extra_inputs: Iterator[Tensor]) -> Tensor:
    """Apply the layers in order. Each takes its parameters from `values`, and a dropout mask or the values of sparse
    features from `extra_inputs`."""
    for layer in layers:
        match layer:
            case Dense():
                x = _dense(x, values)
            case Embedding():
                x = tf.gather(next(values), x) + next(values)
            case TransformerBlock():
                x = _transformer_block(layer, x, values)
            case LayerNorm():
                x = _layer_norm(x, values)
            case GroupNorm(groups):
                x = _group_norm(groups, x, values)
            case Residual(inner):
                changed = _apply(inner, x, values, iter(()))
                if changed.shape[1:] != x.shape[1:]:
                    weight = tf.transpose(next(values), [2, 3, 1, 0])
                    x = tf.nn.conv2d(x, weight, shortcut_stride(int(x.shape[1]), int(changed.shape[1])), "VALID")
                x = x + changed
            case Conv(_, _, stride, padding):
                # The weight is stored as [filters, channels, height, width]; TensorFlow expects the filters last.
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
            case Tanh():
                x = tf.tanh(x)
            case Flatten():
                # Flatten channels first, as the weights of the next layer expect in every engine.
                if len(x.shape) == 4:
                    x = tf.transpose(x, [0, 3, 1, 2])
                x = tf.reshape(x, [-1, _values_per_example(x)])
            case Dropout(rate):
                if (mask := next(extra_inputs, None)) is not None:
                    x = x * tf.cast(mask, tf.float32) * (1 / (1 - rate))
            case SpatialTransformer():
                x = _spatial_transform(layer, x, values)
            case SparseLinear():
                weight, bias = next(values), next(values)
                # A weight of two dimensions holds the rows of this batch: the server has already looked them up.
                rows = weight if len(weight.shape) == 2 else tf.gather(weight, x)
                x = tf.expand_dims(tf.reduce_sum(rows * next(extra_inputs), 1) + bias, 1)
    return x


def _dense(x: Tensor, values: Iterator[Tensor]) -> Tensor:
    """A dense layer; of a sequence, applied to each token."""
    weight, bias = next(values), next(values)
    if len(x.shape) == 2:
        return tf.nn.bias_add(tf.matmul(x, weight), bias)
    rows = tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, int(x.shape[-1])]), weight), bias)
    return tf.reshape(rows, [-1, *x.shape[1:-1], int(weight.shape[-1])])


def _transformer_block(layer: TransformerBlock, x: Tensor, values: Iterator[Tensor]) -> Tensor:
    tokens, width = int(x.shape[1]), int(x.shape[2])
    qkv = _dense(_layer_norm(x, values), values)
    heads = tf.reshape(qkv, [-1, tokens, 3, layer.heads, width // layer.heads])
    query, key, value = tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]))
    scores = tf.matmul(query, key, transpose_b=True) * (width // layer.heads) ** -0.5
    visible = tf.linalg.band_part(tf.ones([tokens, tokens]), -1, 0)
    weights = tf.nn.softmax(tf.where(visible > 0, scores, tf.fill(tf.shape(scores), _HIDDEN)))
    attended = tf.reshape(tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3]), [-1, tokens, width])
    x = x + _dense(attended, values)
    hidden = tf.nn.gelu(_dense(_layer_norm(x, values), values), approximate=False)
    return x + _dense(hidden, values)


def _layer_norm(x: Tensor, values: Iterator[Tensor]) -> Tensor:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    scale, offset = next(values), next(values)
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, NORM_EPSILON)


def _group_norm(groups: int, x: Tensor, values: Iterator[Tensor]) -> Tensor:
    height, width, channels = (int(side) for side in x.shape[1:])
    grouped = tf.reshape(x, [-1, height, width, groups, channels // groups])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keepdims=True)
    normal = tf.reshape((grouped - mean) * tf.math.rsqrt(variance + NORM_EPSILON), [-1, height, width, channels])
    return normal * next(values) + next(values)


def _values_per_example(x: Tensor) -> int:
    size = 1
    for dimension in x.shape[1:]:
        size *= int(dimension)
    return size


def _spatial_transform(layer: SpatialTransformer, image: Tensor, values: Iterator[Tensor]) -> Tensor:
    """Sample the image at the points that the layer's localisation network chooses, by an affine map per example."""
    features = _apply(layer.localisation, image, values, iter(()))
    weight, bias = next(values), next(values)
    affine = tf.reshape(tf.nn.bias_add(tf.matmul(features, weight), bias), [-1, 2, 3])
    axis = tf.linspace(-1.0, 1.0, layer.size)
    grid_x, grid_y = tf.meshgrid(axis, axis)
    points = tf.stack([tf.reshape(grid_x, [-1]), tf.reshape(grid_y, [-1]), tf.ones([layer.size**2])])
    # Shape [examples, 2, points]: for each point of the output its x and y in the image, from -1 to 1.
    positions = tf.einsum("bij,jp->bip", affine, points)
    _, height, width, channels = image.shape
    sampled = _sample(image, (positions[:, 0] + 1) * ((width - 1) / 2), (positions[:, 1] + 1) * ((height - 1) / 2))
    return tf.reshape(sampled, [-1, layer.size, layer.size, int(channels)])


def _sample(image: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The image at the positions `x` and `y` (in pixels): bilinear between pixels, and zero outside of the image."""
    _, height, width, channels = image.shape
    pixels = tf.reshape(image, [-1, int(height) * int(width), int(channels)])
    left, top = tf.floor(x), tf.floor(y)
    total = 0.0
    for dx in (0, 1):
        for dy in (0, 1):
            column, row = left + dx, top + dy
            weight = (1 - tf.abs(x - column)) * (1 - tf.abs(y - row))
            inside = (column >= 0) & (column <= width - 1) & (row >= 0) & (row <= height - 1)
            index = tf.clip_by_value(row, 0, height - 1) * float(width) + tf.clip_by_value(column, 0, width - 1)
            corner = tf.gather(pixels, tf.cast(index, tf.int32), batch_dims=1)
            total += corner * tf.expand_dims(weight * tf.cast(inside, tf.float32), 2)
    return total
