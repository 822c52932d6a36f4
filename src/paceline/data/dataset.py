"""Data that is ready on disk, and how idx files of images are mapped."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.data.idx import check_length, idx_header
from paceline.data.images import LabelledImages
from paceline.errors import DataError

_HEAD = 64  # longer than any idx header


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedData:
    """Data that lies verified on disk: plain values, so a controller can hand them to its tasks."""

    paths: tuple[str, ...]
    """of MNIST and its like: train images, train labels, test images, test labels, as plain idx files; none if the
    data is made by the task itself"""
    source: str
    """what the data is, for the run's record"""
    synthetic: bool
    """made up, whether by design or for want of the real data"""
    stands_in: bool = False
    """made up because the real data could not be had: something to tell the user"""


def map_images(ready: PreparedData, examples: int | None, image: tuple[int, ...], classes: int) -> LabelledImages:
    """The data set in four idx files, the training part cut to its first examples."""
    train_x, train_y, test_x, test_y = (map_idx(Path(path)) for path in ready.paths)
    train = _rows(train_x, image), _labels(train_y, len(train_x), classes)
    test = _rows(test_x, image), _labels(test_y, len(test_x), classes)
    count = check_examples(examples, len(train_x))
    return LabelledImages(
        train_x=train[0][:count], train_y=train[1][:count], test_x=test[0], test_y=test[1], scale=1 / 255
    )


def check_examples(wanted: int | None, there_are: int) -> int:
    """How many training examples to use."""
    if wanted is not None and not 1 <= wanted <= there_are:
        raise DataError(f"examples = {wanted}: choose 1 to {there_are}, the data set has no more")
    return wanted or there_are


def map_idx(path: Path) -> NDArray[np.uint8]:
    """A plain idx file as a read-only array whose pages all processes of a machine share."""
    try:
        with path.open("rb") as file:
            shape, start = idx_header(file.read(_HEAD))
            check_length(shape, start, path.stat().st_size)
            mapped = np.memmap(file, dtype=np.uint8, mode="r", offset=start, shape=shape)
    except DataError as why:
        raise DataError(f"{path}: {why}") from None
    except (OSError, ValueError) as why:
        raise DataError(f"cannot read {path}: {why}") from None
    return np.asarray(mapped)  # a plain array: memmap's own indexing is slower, batch after batch


def _rows(images: NDArray[np.uint8], image: Sequence[int]) -> NDArray[np.uint8]:
    if images.shape[1:] != tuple(image):
        raise DataError(f"images of {images.shape[1:]} pixels where {tuple(image)} were expected")
    return images.reshape(len(images), -1)


def _labels(labels: NDArray[np.uint8], count: int, classes: int) -> NDArray[np.int64]:
    if labels.shape != (count,):
        raise DataError(f"{count} images but labels of shape {labels.shape}")
    if count and int(labels.max()) >= classes:
        raise DataError(f"label {labels.max()} where only 0 to {classes - 1} are known")
    return labels.astype(np.int64)
