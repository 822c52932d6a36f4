"""Labelled images: rows of bytes, scaled to floats batch by batch."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.data.batches import Batch, Order, Share

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]

_TEST_BYTES = 8 * 2**20
_TEST_MOST = 2_000


class LabelledImages(msgspec.Struct, frozen=True, kw_only=True):
    """The arrays are read-only, and their pages shared by all processes of a machine."""

    train_x: Pixels
    """[examples, height x width x channels], C-contiguous"""
    train_y: Labels
    test_x: Pixels
    test_y: Labels
    scale: float
    """What a byte is multiplied by before the model sees it."""

    def stream(self, share: Share) -> "ImageStream":
        return ImageStream(self, share)

    def test(self) -> list[Batch]:
        images = np.multiply(self.test_x, np.float32(self.scale), dtype=np.float32)
        return cut(images, self.test_y)


class ImageStream:
    def __init__(self, images: LabelledImages, share: Share) -> None:
        self._x, self._y, self._scale = images.train_x, images.train_y, np.float32(images.scale)
        self._order = Order(len(self._x), share)
        self._raw = np.empty((share.batch, self._x.shape[1]), np.uint8)
        self._images = np.empty(self._raw.shape, np.float32)
        self._labels = np.empty(share.batch, np.int64)

    def at(self, step: int) -> Batch:
        chosen = self._order.at(step)
        # mode="clip" lets take() write straight into `out`; the indices are in range by construction.
        np.take(self._x, chosen, axis=0, out=self._raw, mode="clip")
        np.multiply(self._raw, self._scale, out=self._images)
        np.take(self._y, chosen, out=self._labels, mode="clip")
        return Batch((self._images,), self._labels)


def cut(images: NDArray[np.float32], labels: Labels) -> list[Batch]:
    """Test images in pieces that a model can take at once."""
    piece = max(1, min(_TEST_MOST, _TEST_BYTES // images[0].nbytes))
    parts = (slice(start, start + piece) for start in range(0, len(images), piece))
    return [Batch((images[part],), labels[part]) for part in parts]
