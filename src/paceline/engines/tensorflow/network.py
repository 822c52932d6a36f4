"""The neutral model in TensorFlow, as functions of its parameters' values."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from paceline.workloads.model import Dense, Model, Relu

Tensor = Any


def logits(model: Model, x: Tensor, values: Sequence[Tensor]) -> Tensor:
    parameters = iter(values)
    for layer in model.layers:
        match layer:
            case Dense():
                weight, bias = next(parameters), next(parameters)
                x = tf.nn.bias_add(tf.matmul(x, weight), bias)
            case Relu():
                x = tf.nn.relu(x)
    return x


def mean_loss(model: Model, x: Tensor, y: Tensor, values: Sequence[Tensor]) -> Tensor:
    found = logits(model, x, values)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=found))
