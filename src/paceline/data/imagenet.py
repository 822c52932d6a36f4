"""Synthetic pictures with the size and number of ImageNet's, for measuring throughput, where only the shapes matter.

A pool of 200 pictures in memory, each in 5 tints, gives 1,000 classes; an example is a crop of the picture of its
class. So every label can be learned, and nothing has to be read from disk.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.data.batches import Batch, ExampleOrder, Share
from paceline.data.dataset import PreparedData, check_examples
from paceline.data.hashing import as_uint16, make_key, random_bits
from paceline.data.images import Labels, split_test_set

SIDE, CHANNELS, CLASSES = 224, 3, 1_000
TRAINING, TEST = 1_281_167, 128
"""The number of examples. Few for testing: each is 0.6 MB of floats, kept in memory for the whole run."""

_POOL = 200
"""Pictures in the pool: 200 x 256 x 256 x 3 bytes are 39 MB."""
_POOL_SIDE = 256
_TINTS = np.array(
    [[1.0, 1.0, 1.0], [1.0, 0.6, 0.3], [0.3, 1.0, 0.6], [0.6, 0.3, 1.0], [0.5, 0.5, 0.5]], np.float32
)  # fmt: skip
_COARSE = 8
"""A picture of the pool is interpolated from this many random colours in each direction, plus noise."""
_NOISE = 40
"""The noise adds fewer than this many of 256 levels."""
_SEED = 1

Pool = NDArray[np.uint8]
Rows = NDArray[np.float32]


def ensure() -> PreparedData:
    return PreparedData(paths=(), source="synthetic pictures of ImageNet's shape", synthetic=True)


def find_prepared() -> PreparedData:
    return ensure()


def load(examples: int | None = None, prepared: PreparedData | None = None) -> "SyntheticImagenet":
    return SyntheticImagenet(check_examples(examples, TRAINING))


class SyntheticImagenet:
    """Rows of 224 x 224 x 3 floats from 0 to 1."""

    def __init__(self, examples: int, test: int = TEST) -> None:
        self._examples, self._test = examples, test

    def stream(self, share: Share) -> "ImagenetStream":
        return ImagenetStream(self._crops, self._examples, share)

    def test(self) -> list[Batch]:
        images = np.empty((self._test, SIDE * SIDE * CHANNELS), np.float32)
        return split_test_set(images, self._crops.fill(TRAINING + np.arange(self._test), images))

    @cached_property
    def _crops(self) -> "Crops":
        return Crops(draw_pool())  # Drawn when first needed, since a parameter server never needs it.


class ImagenetStream:
    def __init__(self, crops: "Crops", examples: int, share: Share) -> None:
        self._crops = crops
        self._order = ExampleOrder(examples, share)
        self._images = np.empty((share.batch, SIDE * SIDE * CHANNELS), np.float32)

    def at(self, step: int) -> Batch:
        labels = self._crops.fill(self._order.at(step), self._images)
        return Batch((self._images,), labels)


class Crops:
    """Computes the picture and the label of an example from its number."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Repeat the tint for a whole row of pixels, so that the innermost loop is over 672 bytes and not over 3.
        self._tints = np.tile(_TINTS / 255, SIDE)

    def fill(self, examples: NDArray[np.integer], out: Rows) -> Labels:
        """Write the pictures of these examples to `out` and return their labels."""
        class_bits, right, down, _ = as_uint16(random_bits(make_key(_SEED), examples)).reshape(-1, 4).T.astype(np.int64)
        labels = class_bits * CLASSES >> 16
        offsets = _POOL_SIDE - SIDE + 1
        for row, label, x, y in zip(out, labels.tolist(), right * offsets >> 16, down * offsets >> 16, strict=True):
            picture, tint = divmod(label, len(_TINTS))
            crop = self._pool[picture, y : y + SIDE, CHANNELS * x : CHANNELS * (x + SIDE)]
            image = row.reshape(SIDE, -1)
            # Convert first: multiplying bytes by floats would convert them in small blocks, which is slower.
            np.copyto(image, crop)
            image *= self._tints[tint]
        return labels


def draw_pool(count: int = _POOL) -> Pool:
    """Pictures of shape [count, 256, 256 x 3]; they are the same for every call."""
    rng = np.random.default_rng(_SEED)
    colours = rng.integers(256 - _NOISE, size=(count, _COARSE, _COARSE, CHANNELS)).astype(np.float32)
    noise = rng.integers(_NOISE, size=(_POOL_SIDE, _POOL_SIDE * CHANNELS), dtype=np.uint8)
    pool = np.empty((count, *noise.shape), np.uint8)
    for picture, coarse in zip(pool, colours, strict=True):
        rows = _interpolate(coarse.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(_COARSE, -1)
        np.copyto(picture, _interpolate(rows), casting="unsafe")
        picture += noise
    return pool


def _interpolate(coarse: Rows) -> Rows:
    """Interpolate 8 values along the first axis linearly to 256."""
    positions = np.linspace(0, _COARSE - 1, _POOL_SIDE, endpoint=False)
    before = positions.astype(np.intp)
    fractions = (positions - before).astype(np.float32).reshape(-1, *[1] * (coarse.ndim - 1))
    fine: Rows = np.diff(coarse, axis=0)[before]
    fine *= fractions
    fine += coarse[before]
    return fine
