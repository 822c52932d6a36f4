"""Fashion-MNIST: pictures of clothes, with the format and file names of MNIST and therefore in a folder of its own."""

from collections.abc import Sequence
from pathlib import Path

from paceline.data.cache import FileSet, PinnedFile, directories, find_all
from paceline.data.dataset import PreparedData, map_images
from paceline.data.fetch import Source, Unavailable, fetch_once
from paceline.data.images import LabelledImages
from paceline.data.sources import basename, debian_package, mirror, network, user_gz_files
from paceline.errors import DataError

FOLDER = "fashion-mnist"

# Sizes and hashes are those of the uncompressed files. Zalando publishes only the MD5 of its .gz files: the label files
# were unpacked from those, and Debian's package, which was made from the same files, contains these four.
FASHION = FileSet(
    "fashion-mnist",
    (
        PinnedFile(
            f"{FOLDER}/train-images-idx3-ubyte",
            47_040_016,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        PinnedFile(
            f"{FOLDER}/train-labels-idx1-ubyte",
            60_008,
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        PinnedFile(
            f"{FOLDER}/t10k-images-idx3-ubyte",
            7_840_016,
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        PinnedFile(
            f"{FOLDER}/t10k-labels-idx1-ubyte",
            10_008,
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
)


def ensure(sources: Sequence[Source] | None = None) -> PreparedData:
    """Put the data on disk and verify it. There is no synthetic substitute: an error if no source has it."""
    try:
        return _prepared(fetch_once(FASHION, default_sources() if sources is None else sources))
    except Unavailable as error:
        names = ", ".join(f"{basename(file)}.gz" for file in FASHION.files)
        raise DataError(
            f"Fashion-MNIST is not available ({error}): put {names} into a folder {FOLDER} of a directory, "
            "and set PACELINE_DATA to that directory"
        ) from None


def load(examples: int | None = None, prepared: PreparedData | None = None) -> LabelledImages:
    """Memory-map the files that `ensure` returned as `prepared`, or those in the cache now."""
    return map_images(prepared or find_prepared(), examples, image=(28, 28), classes=10)


def find_prepared() -> PreparedData:
    """The files in the cache, checked by name and size only: `ensure` has verified the content."""
    if paths := find_all(FASHION):
        return _prepared(paths)
    raise DataError(f"Fashion-MNIST is not in {directories()[-1]}: call paceline.data.fashion.ensure() before load()")


def default_sources() -> list[Source]:
    """Where to get Fashion-MNIST if it is not in the cache."""
    return [
        *user_gz_files(FASHION.files),
        *network(
            mirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"),
            debian_package(
                "dataset-fashion-mnist", "0.0~git20200523.55506a9-1", folder="usr/share/datasets/fashion-mnist"
            ),
        ),
    ]


def _prepared(paths: Sequence[Path]) -> PreparedData:
    return PreparedData(paths=tuple(map(str, paths)), source="fashion-mnist", synthetic=False)
