"""The worker of ps-sync: the accumulators and the update of SyncReplicasOptimizer, with a token queue for each worker.

SyncReplicasOptimizer itself has one token queue for all workers, so a fast worker may take two tokens of a round and
its gradients count twice. Here each worker has a queue of its own, and the chief's step includes the update:

    every worker   pull -> compute -> push into the accumulators
    chief          ... -> take the mean gradient (waits for all) -> apply -> send a token to every other worker
    others         ... -> take a token from their own queue (waits for the chief)

A token is the new number of updates; the token _STOP says that no further update will come.
"""

from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from paceline.engines.tensorflow.cluster import ps_device
from paceline.engines.tensorflow.optimizer import Updater
from paceline.engines.tensorflow.ps import ParameterServerWorker
from paceline.train.strategy import Step

tf1 = tf.compat.v1
_STOP = -1
_NEVER_STALE = 2**62
"""The step number that workers give to their gradients. The accumulators drop gradients with a number below that of the
current update. Because a worker pushes only once per token, none of them is ever too old."""


class SyncWorker(ParameterServerWorker):
    """A worker whose gradients are averaged with those of all other workers before they are applied."""

    def _initializers(self) -> list[Any]:
        return [*super()._initializers(), *self._optimizer_initializers]

    def _build_step(self, gradients: list[Any], loss: Any) -> list[Any]:
        workers = self._job.workers
        with tf.device(ps_device(0)):
            build_update = self._build_row_update if self._model.by_rows else self._build_update
            pushes, updated = build_update(gradients)
            queues = [
                tf1.FIFOQueue(-1, tf.int64, [()], shared_name=f"token{number}", name=f"token{number}")
                for number in range(workers)
            ]
            if self._job.is_chief:
                with tf.control_dependencies([*(queue.enqueue(updated) for queue in queues[1:]), *pushes]):
                    token = tf.identity(updated, name="token")
                self._stop = tf.group(*(queue.enqueue(tf.constant(_STOP, tf.int64)) for queue in queues[1:]))
            else:
                with tf.control_dependencies(pushes):
                    token = queues[self._job.index].dequeue(name="token")
        return [loss, token]

    def _build_update(self, gradients: list[Any]) -> tuple[list[Any], Any]:
        """Build the update with SyncReplicasOptimizer.

        Returns the ops that push the gradients, and the number of updates as read after the update.
        """
        workers = self._job.workers
        sync = tf1.train.SyncReplicasOptimizer(
            _MeanUpdate(self._updater), replicas_to_aggregate=workers, total_num_replicas=workers
        )
        sync.apply_gradients(list(zip(gradients, self._variables, strict=True)), self._counter)
        self._optimizer_initializers = [sync._local_step.assign(_NEVER_STALE)]
        return _pushes_and_count(self._graph, sync)

    def _build_row_update(self, gradients: list[Any]) -> tuple[list[Any], Any]:
        """Build the update of a sparse model; returns the same as `_build_update`.

        The sparse accumulator of SyncReplicasOptimizer is not used, because it divides the gradient of a row by the
        number of workers that used the row, not by the number of all workers.
        """
        self._optimizer_initializers = []
        shapes = [gradient.shape for gradient in gradients]
        with tf.device(ps_device(self._parameter_servers[0])):
            types = [tf.int64, tf.float32, tf.float32]
            queue = tf1.FIFOQueue(-1, types, [shapes[0], *shapes], shared_name="rows", name="rows_queue")
            push = queue.enqueue((self._row_indices(), *gradients), name="push_rows")
            # Push before taking, as with the accumulators: if a step is rejected after it has taken gradients of other
            # workers, they are lost.
            with tf.control_dependencies([push]):
                rows, changes, bias_changes = queue.dequeue_many(self._job.workers)
            workers = float(self._job.workers)
            slices = tf.IndexedSlices(tf.reshape(changes, [-1]) / workers, tf.reshape(rows, [-1]))
        with tf.device(ps_device(self._parameter_servers[1])):
            bias_gradient = tf.reduce_sum(bias_changes, 0) / workers
        applied = self._updater.apply_all([slices, bias_gradient], self._counter.read_value())
        with tf.device(ps_device(0)), tf.control_dependencies(applied):
            updated = self._counter.assign_add(1, read_value=True)
        return [push], tf.identity(updated)

    def _step_result(self, fetched: list[NDArray[Any]]) -> Step:
        loss, token = float(fetched[0]), int(fetched[1])
        if token == _STOP:
            return Step(loss, 0, more=False, applied=False)
        return Step(loss, token)


class _MeanUpdate:
    """Applies the mean gradients that a SyncReplicasOptimizer has collected."""

    def __init__(self, updater: Updater) -> None:
        self._updater = updater

    def apply_gradients(self, gradients_and_variables: Any, counter: Any) -> Any:
        """The op of an update, which also counts it."""
        gradients = [gradient for gradient, _ in gradients_and_variables]
        applied = self._updater.apply_all(gradients, counter.read_value())
        with tf.control_dependencies(applied):
            return counter.assign_add(1, read_value=False)


def _pushes_and_count(graph: Any, optimizer: Any) -> tuple[list[Any], Any]:
    """The ops of a SyncReplicasOptimizer that push into the accumulators, and the number of updates after the update.

    They are searched in the graph that the optimizer has built, because it does not offer them.
    """
    dequeue = graph.get_operation_by_name("sync_token_q_Dequeue")
    pushes = [op for op in dequeue.control_inputs if op.type.endswith("AccumulatorApplyGradient")]
    (enqueue,) = optimizer.get_chief_queue_runner().enqueue_ops
    updated = enqueue.inputs[1].op.inputs[1]  # The optimizer enqueues tokens with enqueue_many(fill(n, count)).
    takes = [op for op in graph.get_operations() if op.type.endswith("AccumulatorTakeGradient")]
    if not pushes or len(takes) != len(pushes) or not updated.op.control_inputs:
        raise RuntimeError(
            f"SyncReplicasOptimizer of TensorFlow {tf.__version__} builds another graph than expected: "
            "ps-sync does not support this version; install another one or use --engine torch"
        )
    for take in takes:
        # Push before taking: a step that TensorFlow rejects halfway must not have taken the gradients of other workers.
        take._add_control_inputs(pushes)
    return pushes, updated
