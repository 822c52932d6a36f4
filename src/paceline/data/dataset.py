"""Data that is prepared on disk, and memory-mapping of image data sets in idx files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.data.idx import check_length, idx_header
from paceline.data.images import LabelledImages
from paceline.errors import DataError

_HEADER_BYTES = 64
"""Longer than any idx header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedData:
    """Verified data on disk, described by plain values that the controller sends to its tasks."""

    paths: tuple[str, ...]
    """For data sets like MNIST: training images, training labels, test images and test labels as uncompressed idx
    files. Empty if the tasks generate the data themselves."""
    source: str
    """What the data is, as stored with the run."""
    synthetic: bool
    """Whether the data is generated, by design or as a substitute."""
    is_substitute: bool = False
    """Whether the data is generated because the real data is not available; the user must be told."""


def map_images(prepared: PreparedData, examples: int | None, image: tuple[int, ...], classes: int) -> LabelledImages:
    """The data set in four idx files, with the first `examples` training examples (all if None)."""
    train_x, train_y, test_x, test_y = (map_idx(Path(path)) for path in prepared.paths)
    train = _rows(train_x, image), _labels(train_y, len(train_x), classes)
    test = _rows(test_x, image), _labels(test_y, len(test_x), classes)
    count = check_examples(examples, len(train_x))
    return LabelledImages(
        train_x=train[0][:count], train_y=train[1][:count], test_x=test[0], test_y=test[1], scale=1 / 255
    )


def check_examples(requested: int | None, available: int) -> int:
    """How many training examples to use: `requested`, or all if it is None."""
    if requested is not None and not 1 <= requested <= available:
        raise DataError(f"examples = {requested} is out of range: choose 1 to {available}, the data set has no more")
    return requested or available


def map_idx(path: Path) -> NDArray[np.uint8]:
    """An uncompressed idx file as a read-only array; all processes of a machine share its memory pages."""
    try:
        with path.open("rb") as file:
            shape, start = idx_header(file.read(_HEADER_BYTES))
            check_length(shape, start, path.stat().st_size)
            mapped = np.memmap(file, dtype=np.uint8, mode="r", offset=start, shape=shape)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    return np.asarray(mapped)  # A plain array: indexing a memmap is slower, and every batch does it.


def _rows(images: NDArray[np.uint8], image: Sequence[int]) -> NDArray[np.uint8]:
    if images.shape[1:] != tuple(image):
        raise DataError(f"images have the shape {images.shape[1:]}: expected {tuple(image)}")
    return images.reshape(len(images), -1)


def _labels(labels: NDArray[np.uint8], count: int, classes: int) -> NDArray[np.int64]:
    if labels.shape != (count,):
        raise DataError(f"labels have the shape {labels.shape}: expected ({count},), one per image")
    if count and int(labels.max()) >= classes:
        raise DataError(f"label {labels.max()} is out of range: must be 0 to {classes - 1}")
    return labels.astype(np.int64)
