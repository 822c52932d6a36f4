"""Fashion-MNIST: clothes in MNIST's format and under its file names, hence in a folder of its own."""

from collections.abc import Sequence
from pathlib import Path

from paceline.data.cache import FileSet, Pinned, directories, find_all
from paceline.data.dataset import PreparedData, map_images
from paceline.data.fetch import Source, Unavailable, fetch_once
from paceline.data.images import LabelledImages
from paceline.data.sources import basename, debian_package, mirror, network, users_gz
from paceline.errors import DataError

FOLDER = "fashion-mnist"

# Of the plain files. What Zalando publishes is the MD5 of its .gz files: the labels were unpacked from those, and
# Debian's package, repacked from the same files, has these four.
FASHION = FileSet(
    "fashion-mnist",
    (
        Pinned(
            f"{FOLDER}/train-images-idx3-ubyte",
            47_040_016,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        Pinned(
            f"{FOLDER}/train-labels-idx1-ubyte",
            60_008,
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        Pinned(
            f"{FOLDER}/t10k-images-idx3-ubyte",
            7_840_016,
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        Pinned(
            f"{FOLDER}/t10k-labels-idx1-ubyte",
            10_008,
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
)


def ensure(sources: Sequence[Source] | None = None) -> PreparedData:
    """Puts the data on disk, verified. Nothing stands in for it: digits are no clothes."""
    try:
        return _ready(fetch_once(FASHION, default_sources() if sources is None else sources))
    except Unavailable as why:
        names = ", ".join(f"{basename(file)}.gz" for file in FASHION.files)
        raise DataError(
            f"Fashion-MNIST could not be had ({why}): put {names} into a folder {FOLDER} of a directory, "
            "and name that directory in PACELINE_DATA"
        ) from None


def load(examples: int | None = None, ready: PreparedData | None = None) -> LabelledImages:
    """What `ensure` put on disk, mapped."""
    return map_images(ready or find_ready(), examples, image=(28, 28), classes=10)


def find_ready() -> PreparedData:
    """What the cache holds now, by name and size: `ensure` has verified the content."""
    if paths := find_all(FASHION):
        return _ready(paths)
    raise DataError(f"Fashion-MNIST is not in {directories()[-1]}: call paceline.data.fashion.ensure() before load()")


def default_sources() -> list[Source]:
    """Where it is looked for when the cache lacks it."""
    return [
        *users_gz(FASHION.files),
        *network(
            mirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"),
            debian_package(
                "dataset-fashion-mnist", "0.0~git20200523.55506a9-1", folder="usr/share/datasets/fashion-mnist"
            ),
        ),
    ]


def _ready(paths: Sequence[Path]) -> PreparedData:
    return PreparedData(paths=tuple(map(str, paths)), source="fashion-mnist", synthetic=False)
