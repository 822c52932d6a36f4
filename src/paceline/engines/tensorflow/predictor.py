"""Evaluation in a session of its own: fed through the cluster's, a test set would be copied into remote calls."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.cluster import config
from paceline.train.strategy import Predictor
from paceline.workloads.model import Model

tf1 = tf.compat.v1


class LocalPredictor:
    def __init__(self, model: Model, threads: int) -> None:
        with tf1.Graph().as_default() as graph:
            images = tf1.placeholder(tf.float32, [None, model.inputs])
            values = [tf1.placeholder(tf.float32, shape.shape) for shape in model.parameters()]
            logits = network.logits(model, images, values)
        session = tf1.Session(graph=graph, config=config(threads))
        self._run = session.make_callable(logits, [images, *values])

    def with_values(self, values: Sequence[NDArray[Any]]) -> Predictor:
        def predict(x: NDArray[np.float32]) -> NDArray[np.float32]:
            return self._run(x, *values)

        return predict
