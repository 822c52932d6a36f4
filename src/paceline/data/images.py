"""Labelled images, stored as rows of bytes and scaled to floats for each batch."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.data.augment import shift_copies
from paceline.data.batches import Batch, ExampleOrder, Share

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]

_MAX_TEST_BATCH_BYTES = 8 * 2**20
_MAX_TEST_BATCH = 2_000
"""The most test examples in one call of the model."""


class LabelledImages(msgspec.Struct, frozen=True, kw_only=True):
    """Training and test images; the arrays are read-only, and all processes of a machine share their memory pages."""

    train_x: Pixels
    """Shape [examples, height x width x channels], C-contiguous."""
    train_y: Labels
    test_x: Pixels
    test_y: Labels
    scale: float
    """The factor by which each byte is multiplied for the model."""
    copies: int = 0
    """Further training examples, which are shifted copies; see augment.py."""

    @property
    def train_examples(self) -> int:
        return len(self.train_x) + self.copies

    def stream(self, share: Share) -> "ImageStream":
        return ImageStream(self, share)

    def test(self) -> list[Batch]:
        images = np.multiply(self.test_x, np.float32(self.scale), dtype=np.float32)
        return split_test_set(images, self.test_y)


class ImageStream:
    def __init__(self, images: LabelledImages, share: Share) -> None:
        self._x, self._y, self._scale = images.train_x, images.train_y, np.float32(images.scale)
        self._order = ExampleOrder(images.train_examples, share)
        self._copies = images.copies
        self._raw = np.empty((share.batch, self._x.shape[1]), np.uint8)
        self._images = np.empty(self._raw.shape, np.float32)
        self._labels = np.empty(share.batch, np.int64)

    def at(self, step: int) -> Batch:
        numbers = self._order.at(step)
        indices = numbers % len(self._x) if self._copies else numbers
        # mode="clip" lets take() write directly into `out`; the indices are in range by construction.
        np.take(self._x, indices, axis=0, out=self._raw, mode="clip")
        if self._copies:
            shift_copies(self._raw, numbers, len(self._x))
        np.multiply(self._raw, self._scale, out=self._images)
        np.take(self._y, indices, out=self._labels, mode="clip")
        return Batch((self._images,), self._labels)


def split_test_set(images: NDArray[np.float32], labels: Labels) -> list[Batch]:
    """Test images in batches small enough for one call of the model."""
    size = max(1, min(_MAX_TEST_BATCH, _MAX_TEST_BATCH_BYTES // images[0].nbytes))
    parts = (slice(start, start + size) for start in range(0, len(images), size))
    return [Batch((images[part],), labels[part]) for part in parts]
