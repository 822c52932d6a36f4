"""How a server changes its values: gradient descent with momentum, block by block so that all stays in the cache."""

from collections.abc import Sequence

import numpy as np

from paceline.data.batches import Array
from paceline.workloads.parameters import Vector

Rows = tuple[Array, Vector]
"""Indices, and the gradients of the values there."""
_BLOCK = 64 * 1024


class BlockDescent:
    def __init__(self, values: Vector, lr: float, momentum: float = 0.0) -> None:
        self._values = values
        self._lr, self._momentum = np.float32(lr), np.float32(momentum)
        self._velocity = np.zeros_like(values) if momentum else None
        self._scratch = np.empty(min(_BLOCK, values.size), np.float32)

    def step(self, part: slice, gradients: Sequence[Vector], of: int | None = None) -> None:
        """By the sum of gradients, added up in the order given, over how many there were."""
        weight = np.float32(1 / (of or len(gradients)))
        for start in range(part.start, part.stop, _BLOCK):
            stop = min(start + _BLOCK, part.stop)
            here = slice(start - part.start, stop - part.start)
            self._step(slice(start, stop), [gradient[here] for gradient in gradients], weight)

    def step_rows(self, gradients: Sequence[Rows]) -> None:
        """The same where all but a few gradients are zero; an index may come up several times."""
        rate = self._lr / np.float32(len(gradients))
        for indices, gradient in gradients:
            np.subtract.at(self._values, indices, gradient * rate)

    def _step(self, here: slice, gradients: Sequence[Vector], weight: np.float32) -> None:
        total, change = gradients[0], self._scratch[: here.stop - here.start]
        for gradient in gradients[1:]:
            total = np.add(total, gradient, out=change)
        if self._velocity is None:
            np.multiply(total, self._lr * weight, out=change)
        else:
            velocity = self._velocity[here]
            velocity *= self._momentum
            velocity += np.multiply(total, weight, out=change)
            np.multiply(velocity, self._lr, out=change)
        values = self._values[here]
        np.subtract(values, change, out=values)
