"""Distorted MNIST for spatial transformers: each digit is rotated, scaled and shifted within a larger picture.

The distorted digits are not stored. The distortion is a function of seed, epoch and example, so it is the same for any
number of workers; that of the test set is fixed.
"""

import numpy as np
from numpy.typing import NDArray

from paceline.data import mnist
from paceline.data.batches import Batch, ExampleOrder, Share
from paceline.data.dataset import PreparedData
from paceline.data.hashing import as_uint16, make_key, random_bits
from paceline.data.images import LabelledImages, split_test_set
from paceline.data.warp import INPUT_SIDE, OUTPUT_SIDE, Placement, Warp

_MAX_ROTATION = np.pi / 3
"""Radians, clockwise or counterclockwise."""
_MIN_SCALE, _MAX_SCALE = 0.7, 1.2
_TEST_KEY = make_key(0x7E57)


def ensure() -> PreparedData:
    return _distorted(mnist.ensure())


def find_prepared() -> PreparedData:
    return _distorted(mnist.find_prepared())


def load(examples: int | None = None, prepared: PreparedData | None = None) -> "DistortedImages":
    return DistortedImages(mnist.load(examples, prepared))


class DistortedImages:
    """Rows of 40 x 40 floats from 0 to 1."""

    def __init__(self, digits: LabelledImages) -> None:
        self._digits = digits

    def stream(self, share: Share) -> "DistortedStream":
        return DistortedStream(self._digits, share)

    def test(self) -> list[Batch]:
        digits = self._digits
        count = len(digits.test_x)
        images = np.empty((count, OUTPUT_SIDE * OUTPUT_SIDE), np.float32)
        Warp(digits.test_x)(np.arange(count), placements(_TEST_KEY, np.arange(count)), images)
        return split_test_set(images, digits.test_y)


class DistortedStream:
    """The batches of one worker, distorted when they are requested."""

    def __init__(self, digits: LabelledImages, share: Share) -> None:
        self._seed = share.seed
        self._order = ExampleOrder(digits.train_examples, share)
        self._warp = Warp(digits.train_x)
        self._y = digits.train_y
        self._images = np.empty((share.batch, OUTPUT_SIDE * OUTPUT_SIDE), np.float32)
        self._labels = np.empty(share.batch, np.int64)

    def at(self, step: int) -> Batch:
        numbers = self._order.at(step)
        indices = numbers % len(self._y)
        # A copy has another number than its digit, and so another distortion.
        self._warp(indices, placements(make_key(self._seed, self._order.pass_number(step)), numbers), self._images)
        np.take(self._y, indices, out=self._labels, mode="clip")
        return Batch((self._images,), self._labels)


def placements(key: int, examples: NDArray[np.integer]) -> Placement:
    """How each example is rotated, scaled and shifted; random numbers are drawn from the key and the example."""
    uniform = as_uint16(random_bits(key, examples)).reshape(-1, 4).T.astype(np.float64) / 2**16
    turn, size, right, down = uniform
    size = _MIN_SCALE + (_MAX_SCALE - _MIN_SCALE) * size
    # Large digits are shifted less, so that the whole digit stays within the picture.
    max_shift = (OUTPUT_SIDE - INPUT_SIDE * size) / 2
    return Placement(
        turn=(2 * turn - 1) * _MAX_ROTATION,
        size=size,
        right=(2 * right - 1) * max_shift,
        down=(2 * down - 1) * max_shift,
    )


def _distorted(prepared: PreparedData) -> PreparedData:
    source = f"distorted {prepared.source}, 40 x 40"
    return PreparedData(
        paths=prepared.paths, source=source, synthetic=prepared.synthetic, is_substitute=prepared.is_substitute
    )
