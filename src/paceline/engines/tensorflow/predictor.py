"""Evaluates a model in a local session. The session of the cluster would copy the test set into remote calls."""

from collections.abc import Sequence

import tensorflow as tf

from paceline.data.batches import Array
from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.cluster import session_config
from paceline.train.strategy import Predictor
from paceline.workloads.model import AnyModel

tf1 = tf.compat.v1


class LocalPredictor:
    """The graph of a model whose inputs and parameter values are both fed."""

    def __init__(self, model: AnyModel, threads: int) -> None:
        with tf1.Graph().as_default() as graph:
            inputs = network.placeholders(model.data_feeds)
            values = [tf1.placeholder(tf.float32, shape.shape) for shape in model.parameters]
            outputs = network.outputs(model, inputs, values)
        session = tf1.Session(graph=graph, config=session_config(threads))
        self._run = session.make_callable(outputs, [*inputs, *values])

    def with_values(self, values: Sequence[Array]) -> Predictor:
        """A function that computes the outputs of the model with these parameter values."""

        def predict(*inputs: Array) -> Array:
            predictions: Array = self._run(*inputs, *values)
            return predictions

        return predict
