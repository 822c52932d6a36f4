"""One worker by itself: the same graph style as the parameter servers', without the servers."""

from typing import Any

import numpy as np
import tensorflow as tf

from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.board import graph_event
from paceline.engines.tensorflow.cluster import config
from paceline.train.batches import Images, Labels
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, Step
from paceline.workloads.model import Parameters

tf1 = tf.compat.v1


class Single:
    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._recorder, self._model = context.recorder, context.workload.model
        self._updates = 0
        graph = tf1.Graph()
        with graph.as_default():
            step = self._build(job.seed, job.lr)
        self._session = tf1.Session(graph=graph, config=config(job.threads))
        x, y = np.zeros((job.batch, self._model.inputs), np.float32), np.zeros(job.batch, np.int64)
        self._run = self._session.make_callable(step, [self._x, self._y])
        self._session.run(self._initialize)
        # Compiled before the clock starts; the step that does it is undone.
        self._run(x, y)
        self._session.run(self._initialize)
        context.rendezvous.attach("tensorboard", "events.out.tfevents.graph", graph_event(graph))

    def start(self) -> bool:
        return True

    def step(self, x: Images, y: Labels) -> Step:
        with self._recorder.compute:
            loss, _ = self._run(x, y)
        self._updates += 1
        return Step(float(loss), self._updates)

    def stop_now(self, mine: bool, update: int) -> bool:
        return mine

    def finish(self) -> None:
        pass

    def predictor(self) -> Predictor:
        return lambda x: self._session.run(self._logits, {self._x: x})

    def parameters(self) -> Parameters:
        values = self._session.run(self._variables)
        return {shape.name: value for shape, value in zip(self._model.parameters(), values, strict=True)}

    def close(self) -> None:
        self._session.close()

    def _build(self, seed: int, lr: float) -> list[Any]:
        self._x = tf1.placeholder(tf.float32, [None, self._model.inputs], name="x")
        self._y = tf1.placeholder(tf.int64, [None], name="y")
        self._variables = [
            tf1.get_variable(name.replace(".", "_"), initializer=value, use_resource=True)
            for name, value in self._model.initial(seed).items()
        ]
        self._initialize = tf1.global_variables_initializer()
        self._logits = network.logits(self._model, self._x, self._variables)
        loss = network.mean_loss(self._model, self._x, self._y, self._variables)
        optimizer = tf1.train.GradientDescentOptimizer(lr)
        return [loss, optimizer.minimize(loss, var_list=self._variables)]
