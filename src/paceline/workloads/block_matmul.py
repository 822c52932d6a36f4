"""A computation that is not training: the trace of a product of two large matrices, block by block over the workers.

trace(A B) is the sum over i, j of trace(A[i, j] B[j, i]). A worker holds some blocks of A and multiplies each with
its partner of B, which it holds as well (colocated) or has to fetch from another worker (scattered).
"""

from typing import Literal

import msgspec
import numpy as np

from paceline.data.batches import Array

_TYPE = np.dtype(np.float32)


class BlockMatmul(msgspec.Struct, frozen=True, kw_only=True):
    blocks: int
    """Blocks along each side of the matrices."""
    side: int
    """Rows, and columns, of a block."""
    placement: Literal["colocated", "scattered"]

    @property
    def block_bytes(self) -> int:
        return self.side**2 * _TYPE.itemsize

    def owner(self, i: int, j: int, workers: int) -> int:
        """The worker that holds A[i, j], and makes its product with B[j, i]."""
        return (i * self.blocks + j) % workers

    def home_of_partner(self, i: int, j: int, workers: int) -> int:
        """The worker that holds B[j, i], the partner of A[i, j]."""
        away = 0 if self.placement == "colocated" else 1
        return (self.owner(i, j, workers) + away) % workers

    def pairs_of(self, worker: int, workers: int) -> list[tuple[int, int]]:
        """The (i, j) whose A[i, j] is this worker's, and with it their product."""
        return [pair for pair in self._pairs() if self.owner(*pair, workers) == worker]

    def partners_at(self, worker: int, workers: int) -> list[tuple[int, int]]:
        """The (i, j) whose partner B[j, i] this worker holds, for itself or for another."""
        return [pair for pair in self._pairs() if self.home_of_partner(*pair, workers) == worker]

    def block(self, matrix: Literal["A", "B"], row: int, column: int, seed: int) -> Array:
        """Values by seed, the same whoever holds the block."""
        random = np.random.default_rng([seed, ord(matrix), row, column])
        # None is negative: nothing cancels out, so that the trace can be checked to many digits whatever the seed.
        return random.random((self.side, self.side), _TYPE)

    def _pairs(self) -> list[tuple[int, int]]:
        return [divmod(number, self.blocks) for number in range(self.blocks**2)]
