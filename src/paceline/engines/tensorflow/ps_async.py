"""ps-async: each worker pulls, computes and pushes in one run of the graph; exactly the asked updates are applied.

A gate on server 0 counts. It goes up after a worker's gradients have arrived and before they are applied, so its
value is the exact number of the update; at the limit it refuses, which ends every worker's loop.
"""

from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from paceline.data.batches import Batch
from paceline.engines.tensorflow.cluster import ps_device
from paceline.engines.tensorflow.ps import ParameterServerWorker
from paceline.train.strategy import Step

tf1 = tf.compat.v1
_NO_LIMIT = 2**62


class AsyncWorker(ParameterServerWorker):
    def step(self, batch: Batch) -> Step:
        try:
            return super().step(batch)
        except tf.errors.OutOfRangeError:
            return Step(float("nan"), 0, more=False, applied=False)

    def _build_variables(self) -> None:
        super()._build_variables()
        self._limit = self._job.update_limit or _NO_LIMIT
        with tf.device(ps_device(0)):
            self._gate = tf1.get_variable(
                "gate", [], tf.int64, tf1.zeros_initializer(), trainable=False, use_resource=True
            )
            self._stop = self._gate.assign(self._limit).op

        self._counter = self._gate
        pairs = zip(self._variables, self._parameter_servers, strict=True)
        self._velocity = [self._zeros_like(variable, server) for variable, server in pairs]
        self._slots = [velocity for velocity in self._velocity if velocity is not None]

    def _zeros_like(self, variable: Any, server: int) -> Any:
        """Where a parameter's momentum is kept; None if there is none."""
        if not self._job.momentum:
            return None
        with tf.device(ps_device(server)):
            name = f"{variable.op.name}/velocity"
            zeros = tf1.zeros_initializer()
            return tf1.get_variable(name, variable.shape, tf.float32, zeros, trainable=False, use_resource=True)

    def _initializers(self) -> list[Any]:
        return [self._gate.initializer, *(slot.initializer for slot in self._slots)]

    def _pull(self) -> list[Any]:
        with tf.device(ps_device(0)):
            self._pulled_at = self._gate.read_value()
            # The count is read before the parameters, and rides with them: alone it would be one more remote call.
            with tf.control_dependencies([self._pulled_at]):
                reads = self._reads()
                count = tf.bitcast(self._pulled_at, tf.float32)
        # The count is transferred from server 0 like one more parameter.
        parameter_servers = self._parameter_servers
        self._parameter_servers = [*parameter_servers, 0]
        *pulled, self._count = self._carry([*reads, count], to_worker=True)
        self._parameter_servers = parameter_servers
        return pulled

    def _build_step(self, gradients: list[Any], loss: Any) -> list[Any]:
        with tf.device(ps_device(0)), tf.name_scope("apply"), tf.control_dependencies(gradients):
            number = tf.raw_ops.ResourceCountUpTo(resource=self._gate.handle, limit=self._limit, T=tf.int64)
        applied = []
        for i, server in enumerate(self._parameter_servers):
            with tf.device(ps_device(server)), tf.name_scope("apply"), tf.control_dependencies([number]):
                by_rows = i == 0 and self._model.by_rows
                apply = self._apply_rows if by_rows else self._apply
                applied.append(apply(self._variables[i], self._velocity[i], gradients[i]))
        with tf.device(ps_device(0)), tf.control_dependencies(applied):
            done = tf.identity(number)
        with tf.device(self._here):
            pulled_at = tf.bitcast(self._count, tf.int64)
        return [loss, pulled_at, done]

    def _apply(self, variable: Any, velocity: Any, gradient: Any) -> Any:
        # Locked, or updates that overlap lose each other's writes and pulls see half of one.
        rate = tf.constant(self._job.lr)
        if velocity is None:
            return tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=rate, delta=gradient, use_locking=True
            )
        return tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=velocity.handle,
            lr=rate,
            grad=gradient,
            momentum=tf.constant(self._job.momentum),
            use_locking=True,
        )

    def _apply_rows(self, variable: Any, _velocity: Any, gradient: Any) -> Any:
        change = gradient * tf.constant(self._job.lr)
        return tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=self._touched_rows(), updates=change)

    def _outcome(self, fetched: list[NDArray[Any]]) -> Step:
        loss, pulled_at, number = float(fetched[0]), int(fetched[1]), int(fetched[2])
        return Step(loss, number + 1, staleness=number - pulled_at, more=number + 1 < self._limit)
