"""MultiWorkerMirroredStrategy with a loop of ours: gradients and all-reduce are two functions, to be timed apart."""

import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from paceline.data.batches import Array, Batch
from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.cluster import meet
from paceline.engines.tensorflow.tensorboard_graph import graph_event
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Predictor, Step
from paceline.workloads.parameters import Parameters, by_name, views

_PATIENCE_S = 600.0


class AllReduce:
    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._recorder, self._model = context.recorder, context.model
        beginning = InitialState(context)
        self._is_chief, self._updates = job.is_chief, beginning.update
        self._strategy = _join(context)
        # Plain variables: every worker starts from the same values and applies the same mean.
        first, velocity = beginning.values(), beginning.velocity()
        self._variables = [tf.Variable(value) for value in views(first, self._model.parameters).values()]
        velocity = np.zeros_like(first) if velocity is None else velocity
        velocities = views(velocity, self._model.parameters).values()
        self._velocity = [tf.Variable(value) for value in velocities] if job.momentum else []
        self._build(job.batch, job.lr, job.momentum)
        blank = self._model.blank(job.batch)
        self._gradients(*map(tf.constant, (*blank.inputs, blank.target)))
        self._exchange(*(tf.zeros_like(variable) for variable in self._variables))
        self._broadcast(0, 0)
        self._agreement = StopConsensus(self._timed_broadcast, job.eval_every)
        if job.is_chief:
            graph = self._gradients.graph
            context.rendezvous.attach("tensorboard", "events.out.tfevents.graph", graph_event(graph))

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss, gradients = self._gradients(*map(tf.constant, (*batch.inputs, batch.target)))
        value = float(loss)
        computed = clock_ns()
        self._exchange(*gradients).numpy()
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, computed
        record.push_start_ns, record.push_end_ns = computed, clock_ns()
        self._updates += 1
        return Step(value, self._updates)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return self._agreement.stop_now(chief_wants_stop, update)

    def finish(self) -> None:
        pass

    def predictor(self) -> Predictor:
        return self._predict

    def parameters(self) -> Parameters:
        return by_name(self._model.parameters, [variable.numpy() for variable in self._variables])

    def state(self, update: int) -> TrainingState:
        velocity = [variable.numpy() for variable in self._velocity]
        return TrainingState(update, self.parameters(), by_name(self._model.parameters, velocity) if velocity else {})

    def close(self) -> None:
        """The process ends right after; the framework's own shutdown waits for peers that may be gone."""

    def _build(self, batch: int, lr: float, momentum: float) -> None:
        """Traced now, so that the first step costs what the others cost."""
        model, variables, strategy = self._model, self._variables, self._strategy

        def gradients(*inputs_and_target: Any) -> Any:
            *inputs, target = inputs_and_target
            with tf.GradientTape() as tape:
                loss = network.mean_loss(model, inputs, target, variables)
            return loss, tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)

        def exchange(*mine: Any) -> Any:
            # A function's arguments have no device and the strategy needs one: identity puts them on this replica's.
            replica = tf.distribute.get_replica_context()
            mean = replica.all_reduce(tf.distribute.ReduceOp.MEAN, [tf.identity(gradient) for gradient in mine])
            changes = mean
            if momentum:
                pairs = zip(self._velocity, mean, strict=True)
                changes = [velocity.assign(momentum * velocity + gradient) for velocity, gradient in pairs]
            for variable, change in zip(variables, changes, strict=True):
                variable.assign_sub(lr * change)
            return tf.constant(0)

        def add(word: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(word))

        def compiled(function: Any, *shapes: Any) -> Any:
            # Without autograph: it has nothing to rewrite here, and leaves files in the temporary directory.
            plain = tf.autograph.experimental.do_not_convert(function)
            traced = tf.function(lambda *a: strategy.run(plain, a), autograph=False)
            return traced.get_concrete_function(*shapes)

        feeds = (tf.TensorSpec([batch, *feed.shape], feed.dtype) for feed in model.feeds)
        target = tf.TensorSpec([batch, *model.target.shape], model.target.dtype)
        self._gradients = compiled(gradients, *feeds, target)
        self._exchange = compiled(exchange, *(tf.TensorSpec(v.shape, tf.float32) for v in variables))
        self._add = compiled(add, tf.TensorSpec([2], tf.int64))

    def _predict(self, *inputs: Array) -> Array:
        found: Array = network.outputs(self._model, [tf.constant(array) for array in inputs], self._variables).numpy()
        return found

    def _broadcast(self, first: int, second: int) -> tuple[int, int]:
        """A sum in which only the chief's part is not zero."""
        word = [first, second] if self._is_chief else [0, 0]
        told = self._add(tf.constant(word, tf.int64)).numpy()
        return int(told[0]), int(told[1])

    def _timed_broadcast(self, first: int, second: int) -> tuple[int, int]:
        with self._recorder.wait:
            return self._broadcast(first, second)


def _join(context: TaskContext) -> Any:
    """Returns once all workers are in. Must be the first thing the framework does in this process."""
    job = context.job
    cluster = {"worker": meet(context)["worker"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": job.index}})
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    _be_patient(job.workers)
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING, timeout_seconds=_PATIENCE_S
    )
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _be_patient(workers: int) -> None:
    """As the strategy sets it up itself, but for the time after which it gives up a worker that is silent.

    Its 10 s are shorter than it takes to find out who is stuck, and where; a worker that dies is seen by its agent.
    """
    from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
    from tensorflow.python.eager import context as eager

    eager.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * _PATIENCE_S),
        coordinated_jobs=[CoordinatedJob(name="worker", num_tasks=workers)],
    )
