"""ps-sync: SyncReplicasOptimizer's accumulators and update, with a token queue for each worker.

The stock optimizer hands out tokens through one queue, so a fast worker may take two of a round and count twice.
Here each worker has its own queue, and the chief's own step carries the update:

    every worker   pull -> compute -> push into the accumulators
    chief          ... -> take a gradient of each (waits) -> apply -> a token to every other worker
    others         ... -> take their own token (waits)

A token is the new number of updates; STOP says that no further update will come.
"""

from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from paceline.engines.tensorflow.cluster import ps_device
from paceline.engines.tensorflow.optimizer import optimizer, slots
from paceline.engines.tensorflow.ps import ParameterServerWorker
from paceline.train.strategy import Step

tf1 = tf.compat.v1
_STOP = -1
# The accumulators drop gradients older than their update. The tokens allow one push a round, so none is.
_NEVER_STALE = 2**62


class SyncWorker(ParameterServerWorker):
    def _build_variables(self) -> None:
        super()._build_variables()
        with tf.device(ps_device(0)):
            self._updates = tf1.get_variable(
                "updates", [], tf.int64, tf1.zeros_initializer(), trainable=False, use_resource=True
            )
        self._counter = self._updates

    def _initializers(self) -> list[Any]:
        return [self._updates.initializer, *self._more_initializers]

    def _build_step(self, gradients: list[Any], loss: Any) -> list[Any]:
        workers = self._job.workers
        with tf.device(ps_device(0)):
            pushes, updated = (self._gather_rows if self._model.by_rows else self._accumulate)(gradients)
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

    def _accumulate(self, gradients: list[Any]) -> tuple[list[Any], Any]:
        """The stock optimizer's: a push for each parameter, and the count once the update is done."""
        workers = self._job.workers
        descent = optimizer(self._job.lr, self._job.momentum)
        sync = tf1.train.SyncReplicasOptimizer(descent, replicas_to_aggregate=workers, total_num_replicas=workers)
        sync.apply_gradients(list(zip(gradients, self._variables, strict=True)), self._updates)
        self._slots = slots(descent, self._variables)
        more = [slot.initializer for slot in descent.variables()]
        self._more_initializers = [sync._local_step.assign(_NEVER_STALE), *more]
        return _stock_pieces(self._graph, sync)

    def _gather_rows(self, gradients: list[Any]) -> tuple[list[Any], Any]:
        """For sparse models, whose stock accumulator divides a row by how many touched it, not by all workers."""
        self._more_initializers, self._slots = [], []
        weight, bias = self._variables
        shapes = [gradient.shape for gradient in gradients]
        with tf.device(ps_device(self._parameter_servers[0])):
            types = [tf.int64, tf.float32, tf.float32]
            queue = tf1.FIFOQueue(-1, types, [shapes[0], *shapes], shared_name="rows", name="rows_queue")
            push = queue.enqueue((self._touched_rows(), *gradients), name="push_rows")
            # As with the accumulators: what is taken by a step that is not done is lost.
            with tf.control_dependencies([push]):
                rows, changes, bias_changes = queue.dequeue_many(self._job.workers)
            rate = tf.constant(self._job.lr / self._job.workers)
            scattered = tf.raw_ops.ResourceScatterSub(resource=weight.handle, indices=rows, updates=changes * rate)
        with tf.device(ps_device(self._parameter_servers[1])):
            moved = bias.assign_sub(tf.reduce_sum(bias_changes, 0) * rate).op
        with tf.device(ps_device(0)), tf.control_dependencies([scattered, moved]):
            updated = self._updates.assign_add(1, read_value=True)
        return [push], tf.identity(updated)

    def _outcome(self, fetched: list[NDArray[Any]]) -> Step:
        loss, token = float(fetched[0]), int(fetched[1])
        if token == _STOP:
            return Step(loss, 0, more=False, applied=False)
        return Step(loss, token)


def _stock_pieces(graph: Any, optimizer: Any) -> tuple[list[Any], Any]:
    """From the optimizer's own graph: the pushes into the accumulators, and the count once the update is done."""
    dequeue = graph.get_operation_by_name("sync_token_q_Dequeue")
    pushes = [op for op in dequeue.control_inputs if op.type.endswith("AccumulatorApplyGradient")]
    (enqueue,) = optimizer.get_chief_queue_runner().enqueue_ops
    updated = enqueue.inputs[1].op.inputs[1]  # enqueue_many(fill(n, count))
    takes = [op for op in graph.get_operations() if op.type.endswith("AccumulatorTakeGradient")]
    if not pushes or len(takes) != len(pushes) or not updated.op.control_inputs:
        raise RuntimeError("SyncReplicasOptimizer is not built as expected: this TensorFlow version is not supported")
    for take in takes:
        # A step of which the runtime does only a part must not take what others pushed.
        take._add_control_inputs(pushes)
    return pushes, updated
