"""The worker of strategy allreduce: MultiWorkerMirroredStrategy with a training loop of its own.

The gradients and the all-reduce are two separate TensorFlow functions, so that each of them can be timed.
"""

import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from paceline.data.batches import Array, Batch
from paceline.engines.tensorflow import network
from paceline.engines.tensorflow.cluster import cluster_addresses
from paceline.engines.tensorflow.optimizer import Updater, named_state
from paceline.engines.tensorflow.tensorboard_graph import graph_event
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Exchanged, Predictor, Step
from paceline.workloads.model import Model
from paceline.workloads.outputs import map_tensors
from paceline.workloads.parameters import Parameters, by_name, views

_TIMEOUT_S = 600.0
"""How long TensorFlow waits for a worker that does not respond. See `_set_heartbeat_timeout`."""


class AllReduce:
    """One of several workers that all have the same parameters and apply the same mean gradient in every step."""

    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._recorder, self._model = context.recorder, context.model
        # Joined before the state is read: this may build a user's Keras model, for which it uses TensorFlow.
        self._strategy = _join(context)
        initial = InitialState(context)
        self._is_chief, self._updates = job.is_chief, initial.update
        # Plain variables need no synchronisation: all workers start from the same values and apply the same mean.
        values, stored, shapes = initial.values(), initial.optimizer_state(), self._model.parameters
        self._variables = [tf.Variable(value) for value in views(values, shapes).values()]
        self._slots = {
            name: [tf.Variable(value) for value in views(stored.get(name, np.zeros_like(values)), shapes).values()]
            for name in job.optimizer.state_names
        }
        self._counter = tf.Variable(initial.update, dtype=tf.int64)
        self._build_functions(job.batch, Updater(job.optimizer, shapes, self._variables, self._slots))
        self.exchanged, self._workers = Exchanged(), job.workers
        blank = self._model.blank(job.batch)
        self._gradients(*map(tf.constant, (*blank.inputs, blank.target)))
        self._warm_up_exchange()
        self._broadcast(0, 0)
        self._stop_consensus = StopConsensus(self._timed_broadcast, job.eval_every)
        graph = self._gradients.graph
        context.rendezvous.attach("tensorboard", "events.out.tfevents.graph", graph_event(graph))

    def _warm_up_exchange(self) -> None:
        """Make an update with a gradient of zero, and undo it: weight decay changes the values all the same."""
        changed = [*self._variables, *(slot for slots in self._slots.values() for slot in slots), self._counter]
        before = [variable.numpy() for variable in changed]
        self._exchange(*(tf.zeros_like(variable) for variable in self._variables))
        for variable, value in zip(changed, before, strict=True):
            variable.assign(value)

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
        self.exchanged.add_allreduce(4 * self._model.size, self._workers)
        self._updates += 1
        return Step(value, self._updates)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return self._stop_consensus.stop_now(chief_wants_stop, update)

    def finish(self) -> None:
        """Do nothing: every worker already has the final parameters."""

    def predictor(self) -> Predictor:
        return self._predict

    def parameters(self) -> Parameters:
        return by_name(self._model.parameters, [variable.numpy() for variable in self._variables])

    def state(self, update: int) -> TrainingState:
        stored = {name: [slot.numpy() for slot in variables] for name, variables in self._slots.items()}
        return TrainingState(update, self.parameters(), named_state(self._model.parameters, stored))

    def close(self) -> None:
        """Do nothing: the process ends now, and TensorFlow's own shutdown would wait for peers that may be gone."""

    def _build_functions(self, batch: int, updater: Updater) -> None:
        """Trace the functions of a step now, so that the first step takes no longer than the others."""
        model, variables, strategy = self._model, self._variables, self._strategy

        def gradients(*inputs_and_target: Any) -> Any:
            *inputs, target = inputs_and_target
            with tf.GradientTape() as tape:
                loss = network.mean_loss(model, inputs, target, variables)
            return loss, tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)

        def exchange(*local_gradients: Any) -> Any:
            # The strategy needs tensors with a device, and arguments of a function have none: identity puts them on the
            # device of this replica.
            replica = tf.distribute.get_replica_context()
            means = replica.all_reduce(tf.distribute.ReduceOp.MEAN, [tf.identity(g) for g in local_gradients])
            updater.apply_all(means, self._counter.read_value())
            self._counter.assign_add(1)
            return tf.constant(0)

        def sum_over_workers(numbers: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(numbers))

        def trace(function: Any, *shapes: Any) -> Any:
            # Autograph is off: it has nothing to rewrite here, and it leaves files in the temporary directory.
            plain = tf.autograph.experimental.do_not_convert(function)
            traced = tf.function(lambda *arguments: strategy.run(plain, arguments), autograph=False)
            return traced.get_concrete_function(*shapes)

        # Batches of a user's data may differ in size.
        size = batch if isinstance(model, Model) else None
        feeds = (tf.TensorSpec([size, *feed.shape], feed.dtype) for feed in model.feeds)
        target = tf.TensorSpec([size, *model.target.shape], model.target.dtype)
        self._gradients = trace(gradients, *feeds, target)
        self._exchange = trace(exchange, *(tf.TensorSpec(v.shape, tf.float32) for v in variables))
        self._sum_over_workers = trace(sum_over_workers, tf.TensorSpec([2], tf.int64))

    def _predict(self, *inputs: Array) -> Any:
        outputs = network.outputs(self._model, [tf.constant(array) for array in inputs], self._variables)
        return map_tensors(lambda tensor: tensor.numpy(), outputs)

    def _broadcast(self, first: int, second: int) -> tuple[int, int]:
        """The chief's two numbers, in every worker: a sum over all workers to which the others add zeros."""
        numbers = [first, second] if self._is_chief else [0, 0]
        sums = self._sum_over_workers(tf.constant(numbers, tf.int64)).numpy()
        return int(sums[0]), int(sums[1])

    def _timed_broadcast(self, first: int, second: int) -> tuple[int, int]:
        with self._recorder.wait:
            return self._broadcast(first, second)


def _join(context: TaskContext) -> Any:
    """The strategy of TensorFlow, once all workers have joined it. TensorFlow must not have been used in this process
    before."""
    job = context.job
    cluster = {"worker": cluster_addresses(context)["worker"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": job.index}})
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    _set_heartbeat_timeout(job.workers)
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING, timeout_seconds=_TIMEOUT_S
    )
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _set_heartbeat_timeout(workers: int) -> None:
    """Configure the coordination service as the strategy itself does, but with a longer heartbeat timeout.

    After the default of 10 s without a heartbeat, TensorFlow would end the run before Paceline can find out which
    worker hangs, and where. A worker that dies is noticed by its agent.
    """
    from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
    from tensorflow.python.eager import context as eager

    eager.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * _TIMEOUT_S),
        coordinated_jobs=[CoordinatedJob(name="worker", num_tasks=workers)],
    )
