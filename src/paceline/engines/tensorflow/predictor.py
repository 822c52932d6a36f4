"""Evaluates a model in a local session. The session of the cluster would copy the test set into remote calls."""

from collections.abc import Sequence
from typing import Any

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
        # Session.run also takes the tuples and dicts that users' models return.
        self._session, self._outputs, self._feeds = session, outputs, [*inputs, *values]

    def with_values(self, values: Sequence[Array]) -> Predictor:
        """A function that computes the outputs of the model with these parameter values."""

        def predict(*inputs: Array) -> Any:
            return self._session.run(self._outputs, dict(zip(self._feeds, (*inputs, *values), strict=True)))

        return predict
