"""One worker by itself: the same graph style as the parameter servers', without the servers."""

from typing import Any

import tensorflow as tf

from paceline.data.batches import Array, Batch
from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.cluster import config
from paceline.engines.tensorflow.optimizer import fed, optimizer, slots
from paceline.engines.tensorflow.tensorboard_graph import graph_event
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, SingleWorker, Step
from paceline.workloads.parameters import Parameters, Vector, by_name, views

tf1 = tf.compat.v1


class Single(SingleWorker):
    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._recorder, self._model = context.recorder, context.model
        beginning = InitialState(context)
        self._updates = beginning.update
        graph = tf1.Graph()
        with graph.as_default():
            step = self._build(job.lr, job.momentum)
        self._session = tf1.Session(graph=graph, config=config(job.threads))
        self._run = self._session.make_callable(step, [*self._inputs, self._target])
        self._session.run(self._initialize)
        # Compiled before the clock starts; the step that does it is undone.
        blank = self._model.blank(job.batch)
        self._run(*blank.inputs, blank.target)
        self._session.run(self._initialize)
        values = self._named(beginning.values()).values()
        self._session.run(self._assign, dict(zip(self._firsts, values, strict=True)))
        velocity = beginning.velocity()
        if velocity is not None:
            for slot, value in zip(self._slots, self._named(velocity).values(), strict=True):
                self._session.run(*fed(slot, value))
        context.rendezvous.attach("tensorboard", "events.out.tfevents.graph", graph_event(graph))

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss, _ = self._run(*batch.inputs, batch.target)
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, clock_ns()
        self._updates += 1
        return Step(float(loss), self._updates)

    def predictor(self) -> Predictor:
        return self._predict

    def parameters(self) -> Parameters:
        return by_name(self._model.parameters, self._session.run(self._variables))

    def state(self, update: int) -> TrainingState:
        shapes = self._model.parameters
        velocity = by_name(shapes, self._session.run(self._slots)) if self._slots else {}
        return TrainingState(update, self.parameters(), velocity)

    def close(self) -> None:
        self._session.close()

    def _build(self, lr: float, momentum: float) -> list[Any]:
        self._inputs = network.placeholders(self._model.feeds)
        self._target = network.placeholder_of(self._model.target)
        # First values are fed: as constants they would be part of the graph, and of the file that shows it.
        shapes, zeros = self._model.parameters, tf1.zeros_initializer()
        self._variables = [
            tf1.get_variable(shape.name.replace(".", "_"), shape.shape, tf.float32, zeros, use_resource=True)
            for shape in shapes
        ]
        self._firsts = [tf1.placeholder(tf.float32, shape.shape) for shape in shapes]
        self._assign = [v.assign(first).op for v, first in zip(self._variables, self._firsts, strict=True)]
        self._outputs = network.outputs(self._model, self._inputs[: len(self._model.data_feeds)], self._variables)
        loss = network.mean_loss(self._model, self._inputs, self._target, self._variables)
        descent = optimizer(lr, momentum)
        update = descent.minimize(loss, var_list=self._variables)
        self._slots = slots(descent, self._variables)
        self._initialize = tf1.global_variables_initializer()
        return [loss, update]

    def _named(self, vector: Vector) -> Parameters:
        return views(vector, self._model.parameters)

    def _predict(self, *inputs: Array) -> Array:
        found: Array = self._session.run(self._outputs, dict(zip(self._inputs, inputs, strict=False)))
        return found
