"""A computation that is not training: the trace of the product of two large matrices, whose blocks the workers share.

trace(A B) is the sum over i, j of trace(A[i, j] B[j, i]). A worker stores some blocks of A and multiplies each of them
with its partner, the block B[j, i]. It stores the partner as well (colocated) or fetches it from another worker
(scattered).
"""

from typing import Literal

import msgspec
import numpy as np

from paceline.data.batches import Array

_DTYPE = np.dtype(np.float32)


class BlockMatmul(msgspec.Struct, frozen=True, kw_only=True):
    blocks: int
    """Blocks along each dimension of the matrices."""
    side: int
    """Rows of a block, and columns."""
    placement: Literal["colocated", "scattered"]

    @property
    def block_bytes(self) -> int:
        return self.side**2 * _DTYPE.itemsize

    def block_owner(self, i: int, j: int, workers: int) -> int:
        """The worker that stores A[i, j] and multiplies it with B[j, i]."""
        return (i * self.blocks + j) % workers

    def partner_owner(self, i: int, j: int, workers: int) -> int:
        """The worker that stores B[j, i], the partner of A[i, j]."""
        return (self.block_owner(i, j, workers) + self._offset) % workers

    def receiver(self, sender: int, workers: int) -> int:
        """The worker that multiplies the blocks of B that the worker `sender` stores."""
        return (sender - self._offset) % workers

    def pairs_of(self, worker: int, workers: int) -> list[tuple[int, int]]:
        """The (i, j) of the blocks A[i, j] that this worker stores and multiplies."""
        return [pair for pair in self._pairs() if self.block_owner(*pair, workers) == worker]

    def partners_of(self, worker: int, workers: int) -> list[tuple[int, int]]:
        """The (i, j) of the blocks B[j, i] that this worker stores, for itself or for another worker."""
        return [pair for pair in self._pairs() if self.partner_owner(*pair, workers) == worker]

    def block(self, matrix: Literal["A", "B"], row: int, column: int, seed: int) -> Array:
        """The values of a block, which depend on the seed but not on the worker that stores it."""
        random = np.random.default_rng([seed, ord(matrix), row, column])
        # No value is negative, so no terms cancel and the trace can be checked to many digits for any seed.
        return random.random((self.side, self.side), _DTYPE)

    @property
    def _offset(self) -> int:
        return 0 if self.placement == "colocated" else 1

    def _pairs(self) -> list[tuple[int, int]]:
        return [divmod(number, self.blocks) for number in range(self.blocks**2)]
