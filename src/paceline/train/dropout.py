"""Dropout masks. They depend on the number of an example, not on worker or engine, so all engines use the same ones."""

import numpy as np

from paceline.data.batches import Array, Share
from paceline.workloads.model import AnyModel

_WORDS_PER_BLOCK = 4
"""The Philox generator produces this many 64-bit numbers per counter value."""
_BYTES_PER_BLOCK = 8 * _WORDS_PER_BLOCK


class Masks:
    """1 where a value is kept, 0 where it is dropped. The engine scales the kept values.

    A mask depends only on the seed, the layer and the number of the example, counted over all steps and workers.
    """

    def __init__(self, model: AnyModel, share: Share) -> None:
        self._layers = tuple(zip(model.mask_sizes, model.dropout_rates, strict=True))
        self._share = share

    def at(self, step: int) -> tuple[Array, ...]:
        return tuple(self._mask(number, size, rate, step) for number, (size, rate) in enumerate(self._layers))

    def _mask(self, layer: int, size: int, rate: float, step: int) -> Array:
        share = self._share
        blocks_per_example = -(-size // _BYTES_PER_BLOCK)
        first_example = (step * share.workers + share.index) * share.batch
        random = np.random.Philox(key=[share.seed, layer])
        # Each example uses whole blocks, so the generator can skip to the first example of this worker's batch.
        random.advance(first_example * blocks_per_example)
        random_bytes = random.random_raw(share.batch * blocks_per_example * _WORDS_PER_BLOCK).view(np.uint8)
        rows = random_bytes.reshape(share.batch, blocks_per_example * _BYTES_PER_BLOCK)[:, :size]
        return (rows >= round(rate * 256)).view(np.uint8)
