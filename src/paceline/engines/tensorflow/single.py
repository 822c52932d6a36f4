"""The worker of strategy single: it trains alone, with a v1 graph like the parameter-server strategies, but local."""

from typing import Any

import tensorflow as tf

from paceline.data.batches import Array, Batch
from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.cluster import session_config
from paceline.engines.tensorflow.optimizer import Updater, graph_slots, named_state, restore_slots
from paceline.engines.tensorflow.optimizer import assignment as assign_variable
from paceline.engines.tensorflow.tensorboard_graph import graph_event
from paceline.recording.recorder import clock_ns
from paceline.spec.optimizer import Optimizer
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, SingleWorker, Step
from paceline.workloads.parameters import Parameters, Vector, by_name, views

tf1 = tf.compat.v1


class Single(SingleWorker):
    """A worker that applies its own gradients to its own variables."""

    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._recorder, self._model = context.recorder, context.model
        # Builds a user's model now: Keras creates its variables eagerly, which is not possible inside of the graph.
        self._shapes = context.model.parameters
        initial = InitialState(context)
        self._updates = initial.update
        graph = tf1.Graph()
        with graph.as_default():
            step = self._build(job.optimizer)
        self._session = tf1.Session(graph=graph, config=session_config(job.threads))
        self._run = self._session.make_callable(step, [*self._inputs, self._target])
        self._session.run(self._initialize)
        # Run one step, so that TensorFlow prepares the graph before the training clock starts. Initialising a second
        # time undoes this step.
        blank = self._model.blank(job.batch)
        self._run(*blank.inputs, blank.target)
        self._session.run(self._initialize)
        values = self._named(initial.values()).values()
        self._session.run(self._assign, dict(zip(self._initial_values, values, strict=True)))
        self._session.run(*assign_variable(self._counter, initial.update))
        restore_slots(self._session.run, self._slots, self._shapes, initial)
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
        return by_name(self._shapes, self._session.run(self._variables))

    def state(self, update: int) -> TrainingState:
        return TrainingState(update, self.parameters(), named_state(self._shapes, self._session.run(self._slots)))

    def close(self) -> None:
        self._session.close()

    def _build(self, optimizer: Optimizer) -> list[Any]:
        """Build the graph; returns what a step fetches: the loss, and the op of the update."""
        self._inputs = network.placeholders(self._model.feeds)
        self._target = network.target_placeholder(self._model.target)
        # The initial values are fed. As constants, they would be part of the graph and of the event file that shows it.
        shapes, zeros = self._shapes, tf1.zeros_initializer()
        self._variables = [
            tf1.get_variable(shape.name.replace(".", "_"), shape.shape, tf.float32, zeros, use_resource=True)
            for shape in shapes
        ]
        self._initial_values = [tf1.placeholder(tf.float32, shape.shape) for shape in shapes]
        self._assign = [
            variable.assign(initial).op for variable, initial in zip(self._variables, self._initial_values, strict=True)
        ]
        self._outputs = network.outputs(self._model, self._inputs[: len(self._model.data_feeds)], self._variables)
        loss = network.mean_loss(self._model, self._inputs, self._target, self._variables)
        self._slots = graph_slots(optimizer, self._variables)
        updater = Updater(optimizer, shapes, self._variables, self._slots)
        self._counter = tf1.get_variable("updates", [], tf.int64, zeros, trainable=False, use_resource=True)
        # A parameter that the user's model does not use has no gradient: use zeros.
        gradients = tf.gradients(loss, self._variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        update = tf.group(*updater.apply_all(self._by_rows(gradients), self._counter.read_value()))
        if updater.needs_number:
            with tf.control_dependencies([update]):
                update = self._counter.assign_add(1, read_value=False)
        self._initialize = tf1.global_variables_initializer()
        return [loss, update]

    def _by_rows(self, gradients: list[Any]) -> list[Any]:
        """The gradients; those of rows only for a model that trains only the rows that a batch uses."""
        return gradients if self._model.by_rows else [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _named(self, vector: Vector) -> Parameters:
        return views(vector, self._shapes)

    def _predict(self, *inputs: Array) -> Any:
        return self._session.run(self._outputs, dict(zip(self._inputs, inputs, strict=False)))
