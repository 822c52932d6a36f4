"""Dropout's masks: drawn in NumPy for the examples a worker takes, so that engines and strategies agree on them."""

import numpy as np

from paceline.data.batches import Array, Share
from paceline.workloads.model import AnyModel

_WORDS = 4
"""Philox makes so many 64-bit numbers a turn."""
_BYTES_A_TURN = 8 * _WORDS


class Masks:
    """1 where a value is kept, 0 where it is dropped. An example's mask depends on its place in the order alone."""

    def __init__(self, model: AnyModel, share: Share) -> None:
        self._layers = tuple(zip(model.mask_sizes, model.dropout_rates, strict=True))
        self._share = share

    def at(self, step: int) -> tuple[Array, ...]:
        return tuple(self._mask(number, size, rate, step) for number, (size, rate) in enumerate(self._layers))

    def _mask(self, layer: int, size: int, rate: float, step: int) -> Array:
        share = self._share
        turns = -(-size // _BYTES_A_TURN)
        first = (step * share.workers + share.index) * share.batch
        random = np.random.Philox(key=[share.seed, layer])
        random.advance(first * turns)
        drawn = random.random_raw(share.batch * turns * _WORDS).view(np.uint8)
        rows = drawn.reshape(share.batch, turns * _BYTES_A_TURN)[:, :size]
        return (rows >= round(rate * 256)).view(np.uint8)
