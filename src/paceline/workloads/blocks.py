"""A computation that is not training: the trace of a product of two large matrices, block by block over the hosts.

trace(A B) is the sum over i, j of trace(A[i, j] B[j, i]). A worker holds some blocks of A and multiplies each with
its partner of B, which lies on the same host (colocated) or on another, from which it has to be fetched (scattered).
"""

from typing import Literal

import msgspec
import numpy as np

from paceline.data.batches import Array


class BlockProduct(msgspec.Struct, frozen=True, kw_only=True):
    blocks: int
    """Blocks along each side of the matrices."""
    side: int
    """Rows, and columns, of a block."""
    placement: Literal["colocated", "scattered"]

    def pairs_of(self, worker: int, workers: int) -> list[tuple[int, int]]:
        """The (i, j) whose A[i, j] is this worker's, and with it their product."""
        return [divmod(number, self.blocks) for number in range(worker, self.blocks**2, workers)]

    def home_of_partner(self, i: int, j: int, workers: int) -> int:
        """The worker that holds B[j, i], the partner of A[i, j]."""
        mine = (i * self.blocks + j) % workers
        return mine if self.placement == "colocated" else (mine + 1) % workers

    def block(self, matrix: Literal["A", "B"], row: int, column: int, seed: int) -> Array:
        """Values by seed, the same whoever holds the block; small, so that the trace stays exact enough to check."""
        random = np.random.default_rng([seed, ord(matrix), row, column])
        return random.standard_normal((self.side, self.side), np.float32)
