"""Evaluation in a session of its own: fed through the cluster's, a test set would be copied into remote calls."""

from collections.abc import Sequence

import tensorflow as tf

from paceline.data.batches import Array
from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.cluster import config
from paceline.train.strategy import Predictor
from paceline.workloads.model import AnyModel

tf1 = tf.compat.v1


class LocalPredictor:
    def __init__(self, model: AnyModel, threads: int) -> None:
        with tf1.Graph().as_default() as graph:
            inputs = network.placeholders(model.data_feeds)
            values = [tf1.placeholder(tf.float32, shape.shape) for shape in model.parameters]
            outputs = network.outputs(model, inputs, values)
        session = tf1.Session(graph=graph, config=config(threads))
        self._run = session.make_callable(outputs, [*inputs, *values])

    def with_values(self, values: Sequence[Array]) -> Predictor:
        def predict(*inputs: Array) -> Array:
            found: Array = self._run(*inputs, *values)
            return found

        return predict
