"""The outer optimizer of workers that train alone for several steps: SGD with Nesterov momentum, without any I/O."""

import numpy as np

from paceline.workloads.parameters import Vector


class OuterStep:
    """Moves the global parameters towards the mean of the workers' parameters.

    The outer gradient is the difference between the global parameters and that mean. With `lr` 1 and without momentum,
    the global parameters become the mean.
    """

    def __init__(
        self,
        values: Vector,
        *,
        lr: float,
        momentum: float,
        velocity: Vector | None = None,
        from_changes: bool = False,
    ) -> None:
        """`values` is the vector of a worker's parameters, which are the global ones now. `from_changes`: the mean is
        given by `set_mean_change`, not in that vector."""
        self._values = values
        self._takes_mean = lr == 1 and not momentum
        self._lr, self._momentum = np.float32(lr), np.float32(momentum)
        self._global = values.copy() if from_changes or not self._takes_mean else None
        self.velocity = velocity if velocity is not None or not momentum else np.zeros_like(values)
        """None without momentum."""

    def change(self) -> Vector:
        """What the worker has changed since the global parameters were the same in all workers."""
        assert self._global is not None
        return self._values - self._global

    def set_mean_change(self, change: Vector) -> None:
        """Write the mean that this mean change leads to into the worker's vector."""
        assert self._global is not None
        np.add(self._global, change, out=self._values)

    def apply(self) -> None:
        """Replace the mean, which is in the worker's vector, by the new global parameters."""
        if self._global is None:
            return
        if self._takes_mean:
            self._global[:] = self._values
            return
        gradient = self._global - self._values
        if self.velocity is not None:
            self.velocity *= self._momentum
            self.velocity += gradient
            gradient += self._momentum * self.velocity
        self._global -= self._lr * gradient
        self._values[:] = self._global
