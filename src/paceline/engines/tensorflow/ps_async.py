"""The worker of ps-async: it pulls, computes and pushes in one run of the graph, without waiting for other workers.

A variable on server 0 counts the updates. It is incremented after a worker's gradients have arrived on the servers and
before they are applied, so its value is the exact number of the update. When it is at the limit, incrementing it fails,
which ends the loop of every worker. So exactly the requested number of updates is applied.
"""

from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from paceline.data.batches import Batch
from paceline.engines.tensorflow.cluster import ps_device
from paceline.engines.tensorflow.optimizer import add_duplicates, clip_gradients, clip_scale
from paceline.engines.tensorflow.ps import ParameterServerWorker
from paceline.train.strategy import Step

tf1 = tf.compat.v1
_NO_LIMIT = 2**62
"""The limit of a run without a number of updates to stop at; it is never reached."""


class AsyncWorker(ParameterServerWorker):
    """A worker whose gradients are applied as soon as they arrive."""

    def step(self, batch: Batch) -> Step:
        try:
            return super().step(batch)
        except tf.errors.OutOfRangeError:  # The counter is at the limit: the gradients were not applied.
            return Step(float("nan"), 0, more=False, applied=False)

    def _build_variables(self) -> None:
        super()._build_variables()
        self._limit = self._job.update_limit or _NO_LIMIT
        with tf.device(ps_device(0)):
            self._stop = self._counter.assign(self._limit).op

    def _pull(self) -> list[Any]:
        with tf.device(ps_device(0)):
            updates = self._counter.read_value()
            # The count is read before the parameters, and transferred packed with them, as float32 like them: to
            # transfer it alone would be one more remote call.
            with tf.control_dependencies([updates]):
                values = self._read_on_servers()
                count = tf.bitcast(updates, tf.float32)
        # For this transfer, the count is treated as one more parameter of server 0.
        parameter_servers = self._parameter_servers
        self._parameter_servers = [*parameter_servers, 0]
        *pulled, self._pulled_count = self._transfer([*values, count], to_worker=True)
        self._parameter_servers = parameter_servers
        return pulled

    def _before_push(self, gradients: list[Any]) -> list[Any]:
        """Clip this worker's own gradient."""
        if not (clip := self._job.optimizer.clip):
            return gradients
        if not self._model.by_rows:
            return clip_gradients(gradients, clip)
        # The norm is that of the sums of what belongs to the same row; what is pushed stays one value per occurrence.
        slices = tf.IndexedSlices(tf.reshape(gradients[0], [-1]), tf.reshape(self._inputs[0], [-1]))
        scale = clip_scale([add_duplicates(slices).values, *gradients[1:]], clip)
        return [gradient * scale for gradient in gradients]

    def _build_step(self, gradients: list[Any], loss: Any) -> list[Any]:
        with tf.device(ps_device(0)), tf.name_scope("apply"), tf.control_dependencies(gradients):
            number = tf.raw_ops.ResourceCountUpTo(resource=self._counter.handle, limit=self._limit, T=tf.int64)
        applied = []
        for i, server in enumerate(self._parameter_servers):
            with tf.device(ps_device(server)), tf.name_scope("apply"), tf.control_dependencies([number]):
                gradient = gradients[i]
                if i == 0 and self._model.by_rows:
                    rows = tf.reshape(self._row_indices(), [-1])
                    gradient = tf.IndexedSlices(tf.reshape(gradient, [-1]), rows)
                applied.append(self._updater.apply(i, gradient, number))
        with tf.device(ps_device(0)), tf.control_dependencies(applied):
            applied_number = tf.identity(number)
        with tf.device(self._worker_device):
            pulled_at = tf.bitcast(self._pulled_count, tf.int64)
        return [loss, pulled_at, applied_number]

    def _step_result(self, fetched: list[NDArray[Any]]) -> Step:
        loss, pulled_at, number = float(fetched[0]), int(fetched[1]), int(fetched[2])
        return Step(loss, number + 1, staleness=number - pulled_at, more=number + 1 < self._limit)
