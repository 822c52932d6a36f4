"""Distorted MNIST, for models that look before they read: each digit turned, scaled and shifted in a larger picture.

Nothing of it is stored. How an example looks in an epoch is a function of seed, epoch and example, and so the same
for any number of workers; the test set always looks the same.
"""

import numpy as np
from numpy.typing import NDArray

from paceline.data import mnist
from paceline.data.batches import Batch, Order, Share
from paceline.data.dataset import PreparedData
from paceline.data.hashing import bits, key, quarters
from paceline.data.images import LabelledImages, cut
from paceline.data.warp import PLACED, SIDE, Placement, Warp

_TURN = np.pi / 3  # either way
_SMALLEST, _LARGEST = 0.7, 1.2
_TEST_KEY = key(0x7E57)


def ensure() -> PreparedData:
    return _distorted(mnist.ensure())


def find_ready() -> PreparedData:
    return _distorted(mnist.find_ready())


def load(examples: int | None = None, ready: PreparedData | None = None) -> "DistortedImages":
    return DistortedImages(mnist.load(examples, ready))


class DistortedImages:
    """Rows of 40 x 40 floats from 0 to 1."""

    def __init__(self, digits: LabelledImages) -> None:
        self._digits = digits

    def stream(self, share: Share) -> "DistortedStream":
        return DistortedStream(self._digits, share)

    def test(self) -> list[Batch]:
        digits = self._digits
        count = len(digits.test_x)
        images = np.empty((count, PLACED * PLACED), np.float32)
        Warp(digits.test_x)(np.arange(count), placements(_TEST_KEY, np.arange(count)), images)
        return cut(images, digits.test_y)


class DistortedStream:
    def __init__(self, digits: LabelledImages, share: Share) -> None:
        self._seed = share.seed
        self._order = Order(len(digits.train_x), share)
        self._warp = Warp(digits.train_x)
        self._y = digits.train_y
        self._images = np.empty((share.batch, PLACED * PLACED), np.float32)
        self._labels = np.empty(share.batch, np.int64)

    def at(self, step: int) -> Batch:
        chosen = self._order.at(step)
        self._warp(chosen, placements(key(self._seed, self._order.epoch(step)), chosen), self._images)
        np.take(self._y, chosen, out=self._labels, mode="clip")
        return Batch((self._images,), self._labels)


def placements(of: int, examples: NDArray[np.integer]) -> Placement:
    """How each example is turned, scaled and shifted under a key."""
    turn, scale, right, down = quarters(bits(of, examples)).reshape(-1, 4).T.astype(np.float64) / 2**16
    size = _SMALLEST + (_LARGEST - _SMALLEST) * scale
    room = (PLACED - SIDE * size) / 2  # so that a digit stays in the picture: large ones are shifted less
    return Placement(turn=(2 * turn - 1) * _TURN, size=size, right=(2 * right - 1) * room, down=(2 * down - 1) * room)


def _distorted(ready: PreparedData) -> PreparedData:
    source = f"distorted {ready.source}, 40 x 40"
    return PreparedData(paths=ready.paths, source=source, synthetic=ready.synthetic, stands_in=ready.stands_in)
