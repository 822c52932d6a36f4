"""Stochastic gradient descent with momentum on a server's values, block by block so that a block stays in the cache."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from paceline.data.batches import Array
from paceline.workloads.parameters import Vector

Rows = tuple[Array, Vector]
"""Indices, and the gradients of the values at these indices."""
_BLOCK_VALUES = 64 * 1024
"""Values per block: 256 KiB of each vector, so that the vectors of a block fit into a core's cache together."""


class BlockSgd:
    """Updates `values` in place.

    `accumulates` says that gradients come one by one through `accumulate` and `apply_accumulated`; they are then added
    to the velocity, so a velocity exists even without momentum.
    """

    def __init__(
        self,
        values: Vector,
        lr: float,
        momentum: float = 0.0,
        *,
        accumulates: bool = False,
        velocity: Vector | None = None,
    ) -> None:
        self._values = values
        self._lr, self._momentum = np.float32(lr), np.float32(momentum)
        self._velocity = velocity
        if velocity is None and (momentum or accumulates):
            self._velocity = np.zeros_like(values)
        self._velocity_snapshot: Vector | None = None
        self._scratch = np.empty(min(_BLOCK_VALUES, values.size), np.float32)

    def step(self, part: slice, gradients: Sequence[Vector]) -> None:
        """Apply the mean of the gradients to a part of the values; they are summed in the order given."""
        weight = np.float32(1 / len(gradients))
        for block, in_part in _blocks(part):
            self._step_block(block, [gradient[in_part] for gradient in gradients], weight)

    def accumulate(self, part: slice, gradient: Vector, *, is_first: bool, count: int) -> None:
        """Add one of `count` gradients of an update directly to the velocity, so that no separate sum is stored."""
        assert self._velocity is not None
        weight = np.float32(1 / count)
        for block, in_part in _blocks(part):
            velocity, change = self._velocity[block], self._scratch[: block.stop - block.start]
            if is_first:
                velocity *= self._momentum
            velocity += np.multiply(gradient[in_part], weight, out=change)

    def apply_accumulated(self, part: slice) -> None:
        """Apply the velocity to the values, after the last gradient of the update was accumulated."""
        assert self._velocity is not None
        for block, _ in _blocks(part):
            values, change = self._values[block], self._scratch[: block.stop - block.start]
            values -= np.multiply(self._velocity[block], self._lr, out=change)

    def snapshot_velocity(self) -> None:
        """Copy the velocity as it is now: gradients of the next update may be accumulated before it is requested."""
        self._velocity_snapshot = None if self._velocity is None else self._velocity.copy()

    def drop_snapshot(self) -> None:
        self._velocity_snapshot = None

    def velocity(self, part: slice) -> Vector:
        """The velocity of the snapshot if there is one, else the current velocity; zeros without momentum."""
        velocity = self._velocity if self._velocity_snapshot is None else self._velocity_snapshot
        return np.zeros(part.stop - part.start, np.float32) if velocity is None else velocity[part]

    def step_rows(self, gradients: Sequence[Rows]) -> None:
        """Apply the mean of sparse gradients; an index may occur several times in one of them."""
        rate = self._lr / np.float32(len(gradients))
        for indices, gradient in gradients:
            np.subtract.at(self._values, indices, gradient * rate)

    def _step_block(self, block: slice, gradients: Sequence[Vector], weight: np.float32) -> None:
        total, change = gradients[0], self._scratch[: block.stop - block.start]
        for gradient in gradients[1:]:
            total = np.add(total, gradient, out=change)
        if self._velocity is None:
            np.multiply(total, self._lr * weight, out=change)
        else:
            velocity = self._velocity[block]
            velocity *= self._momentum
            velocity += np.multiply(total, weight, out=change)
            np.multiply(velocity, self._lr, out=change)
        values = self._values[block]
        np.subtract(values, change, out=values)


def _blocks(part: slice) -> Sequence[tuple[slice, slice]]:
    """The blocks of a part, each as its slice of all values and its slice of the part."""
    return _cut_blocks(part.start, part.stop)


@cache
def _cut_blocks(first: int, last: int) -> Sequence[tuple[slice, slice]]:
    """Cached: for a small model, cutting would take as long as the step itself."""
    starts = range(first, last, _BLOCK_VALUES)
    ends = [(start, min(start + _BLOCK_VALUES, last)) for start in starts]
    return [(slice(start, end), slice(start - first, end - first)) for start, end in ends]
