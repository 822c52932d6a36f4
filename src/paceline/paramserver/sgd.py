"""How a server changes its values: gradient descent with momentum, block by block so that all stays in the cache."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from paceline.data.batches import Array
from paceline.workloads.parameters import Vector

Rows = tuple[Array, Vector]
"""Indices, and the gradients of the values there."""
_BLOCK = 64 * 1024


class BlockSgd:
    def __init__(
        self, values: Vector, lr: float, momentum: float = 0.0, *, folds: bool = False, velocity: Vector | None = None
    ) -> None:
        self._values = values
        self._lr, self._momentum = np.float32(lr), np.float32(momentum)
        self._velocity = velocity
        if velocity is None and (momentum or folds):
            self._velocity = np.zeros_like(values)
        self._kept: Vector | None = None
        self._scratch = np.empty(min(_BLOCK, values.size), np.float32)

    def step(self, part: slice, gradients: Sequence[Vector]) -> None:
        """By the mean of gradients, added up in the order given."""
        weight = np.float32(1 / len(gradients))
        for block, here in _blocks(part):
            self._step(block, [gradient[here] for gradient in gradients], weight)

    def fold(self, part: slice, gradient: Vector, *, first: bool, of: int) -> None:
        """Take in one gradient of several, straight into the velocity: no sum of them has to be kept besides."""
        assert self._velocity is not None
        weight = np.float32(1 / of)
        for block, here in _blocks(part):
            velocity, change = self._velocity[block], self._scratch[: block.stop - block.start]
            if first:
                velocity *= self._momentum
            velocity += np.multiply(gradient[here], weight, out=change)

    def finish(self, part: slice) -> None:
        """After the last of them has been taken in."""
        assert self._velocity is not None
        for block, _ in _blocks(part):
            values, change = self._values[block], self._scratch[: block.stop - block.start]
            values -= np.multiply(self._velocity[block], self._lr, out=change)

    def keep(self) -> None:
        """Remember the velocity as it is now: gradients of the next update may be folded in before it is asked for."""
        self._kept = None if self._velocity is None else self._velocity.copy()

    def velocity(self, part: slice) -> Vector:
        """As it was when it was to be kept, if it was; zeros without momentum."""
        found = self._velocity if self._kept is None else self._kept
        return np.zeros(part.stop - part.start, np.float32) if found is None else found[part]

    def forget_kept(self) -> None:
        self._kept = None

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


def _blocks(part: slice) -> Sequence[tuple[slice, slice]]:
    """Each block of a part: where it is among the values, and where in the part."""
    return _between(part.start, part.stop)


@cache
def _between(first: int, last: int) -> Sequence[tuple[slice, slice]]:
    """Cut once: of a small model, cutting would take as long as the step."""
    starts = range(first, last, _BLOCK)
    ends = [(start, min(start + _BLOCK, last)) for start in starts]
    return [(slice(start, end), slice(start - first, end - first)) for start, end in ends]
