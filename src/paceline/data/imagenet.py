"""Pictures of ImageNet's shape and number, made up: for throughput, where only the shapes count.

A pool of a few pictures in memory, each in a few tints, gives 1,000 classes; an example is a crop of its class's
picture. So every label can be learned, and nothing has to be read from disk.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.data.batches import Batch, Order, Share
from paceline.data.dataset import PreparedData, check_examples
from paceline.data.hashing import bits, key, quarters
from paceline.data.images import Labels, cut

SIDE, CHANNELS, CLASSES = 224, 3, 1_000
TRAINING, TEST = 1_281_167, 128  # a test picture is 0.6 MB of floats, held for the whole run

_POOL = 200
_UNCROPPED = 256  # 200 x 256 x 256 x 3 bytes: 39 MB
_TINTS = np.array(
    [[1.0, 1.0, 1.0], [1.0, 0.6, 0.3], [0.3, 1.0, 0.6], [0.6, 0.3, 1.0], [0.5, 0.5, 0.5]], np.float32
)  # fmt: skip
_COARSE = 8  # a picture is this many random colours each way, blurred into each other, and grain
_GRAIN = 40
_SEED = 1

Pool = NDArray[np.uint8]
Rows = NDArray[np.float32]


def ensure() -> PreparedData:
    return PreparedData(paths=(), source="synthetic pictures of ImageNet's shape", synthetic=True)


def find_ready() -> PreparedData:
    return ensure()


def load(examples: int | None = None, ready: PreparedData | None = None) -> "SyntheticImagenet":
    return SyntheticImagenet(check_examples(examples, TRAINING))


class SyntheticImagenet:
    """Rows of 224 x 224 x 3 floats from 0 to 1."""

    def __init__(self, examples: int, test: int = TEST) -> None:
        self._examples, self._test = examples, test

    def stream(self, share: Share) -> "ImagenetStream":
        return ImagenetStream(self._crops, self._examples, share)

    def test(self) -> list[Batch]:
        images = np.empty((self._test, SIDE * SIDE * CHANNELS), np.float32)
        return cut(images, self._crops.fill(TRAINING + np.arange(self._test), images))

    @cached_property
    def _crops(self) -> "Crops":
        return Crops(draw_pool())  # not before it is needed: a parameter server never does


class ImagenetStream:
    def __init__(self, crops: "Crops", examples: int, share: Share) -> None:
        self._crops = crops
        self._order = Order(examples, share)
        self._images = np.empty((share.batch, SIDE * SIDE * CHANNELS), np.float32)

    def at(self, step: int) -> Batch:
        labels = self._crops.fill(self._order.at(step), self._images)
        return Batch((self._images,), labels)


class Crops:
    """What example of which number looks like."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # A whole row of pixels, so that the innermost loop is over 672 bytes and not over 3.
        self._tints = np.tile(_TINTS / 255, SIDE)

    def fill(self, examples: NDArray[np.integer], out: Rows) -> Labels:
        """Writes the pictures of these examples, and returns their labels."""
        of_class, right, down, _ = quarters(bits(key(_SEED), examples)).reshape(-1, 4).T.astype(np.int64)
        labels = of_class * CLASSES >> 16
        room = _UNCROPPED - SIDE + 1
        for row, label, x, y in zip(out, labels.tolist(), right * room >> 16, down * room >> 16, strict=True):
            picture, tint = divmod(label, len(_TINTS))
            crop = self._pool[picture, y : y + SIDE, CHANNELS * x : CHANNELS * (x + SIDE)]
            image = row.reshape(SIDE, -1)
            np.copyto(image, crop)  # first: multiplying bytes by floats would convert them in small pieces
            image *= self._tints[tint]
        return labels


def draw_pool(count: int = _POOL) -> Pool:
    """Pictures [count, 256, 256 x 3], the same every time."""
    rng = np.random.default_rng(_SEED)
    colours = rng.integers(256 - _GRAIN, size=(count, _COARSE, _COARSE, CHANNELS)).astype(np.float32)
    grain = rng.integers(_GRAIN, size=(_UNCROPPED, _UNCROPPED * CHANNELS), dtype=np.uint8)
    pool = np.empty((count, *grain.shape), np.uint8)
    for picture, coarse in zip(pool, colours, strict=True):
        lines = _stretched(coarse.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(_COARSE, -1)
        np.copyto(picture, _stretched(lines), casting="unsafe")
        picture += grain
    return pool


def _stretched(coarse: Rows) -> Rows:
    """8 values along the first axis become 256, each between two of them."""
    at = np.linspace(0, _COARSE - 1, _UNCROPPED, endpoint=False)
    before = at.astype(np.intp)
    share = (at - before).astype(np.float32).reshape(-1, *[1] * (coarse.ndim - 1))
    stretched: Rows = np.diff(coarse, axis=0)[before]
    stretched *= share
    stretched += coarse[before]
    return stretched
