"""A small data set with the file names of MNIST and random images, so that no test uses the network."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from paceline.data import cache, mnist
from paceline.data.cache import FileSet, PinnedFile
from paceline.data.fetch import Offer, Source
from paceline.data.idx import write_idx


@pytest.fixture(scope="session")
def contents() -> dict[str, bytes]:
    """Name -> content of the four uncompressed files: 40 training and 20 test images."""
    rng = np.random.default_rng(0)
    files = {}
    for part, count in (("train", 40), ("t10k", 20)):
        images = rng.integers(256, size=(count, 28, 28), dtype=np.uint8)
        files[f"{part}-images-idx3-ubyte"] = write_idx(images)
        files[f"{part}-labels-idx1-ubyte"] = write_idx(rng.integers(10, size=count, dtype=np.uint8))
    return files


@pytest.fixture(scope="session")
def small_mnist(contents: dict[str, bytes]) -> FileSet:
    """The file set that replaces MNIST."""
    files = (PinnedFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items())
    return FileSet("mnist", tuple(files))


@pytest.fixture(scope="session")
def complete_source(contents: dict[str, bytes]) -> Source:
    """A source that has every file."""

    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        for file in requested:
            yield file, [contents[file.name]]

    return Source("stub", offer)


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory of Paceline, so that tests never use the real one."""
    monkeypatch.setattr(cache, "_cache_dir", lambda: tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def data_dir(tmp_path: Path, small_mnist: FileSet, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in $PACELINE_DATA that does not exist yet; MNIST is replaced by `small_mnist`."""
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("PACELINE_OFFLINE", raising=False)
    monkeypatch.setattr(mnist, "MNIST", small_mnist)
    return tmp_path / "data"


@pytest.fixture
def visible_files(data_dir: Path) -> Callable[[], dict[str, bytes]]:
    """A function that returns name -> content of the files in the data directory, without dot files."""
    return lambda: {path.name: path.read_bytes() for path in data_dir.iterdir() if path.name[0] != "."}


@pytest.fixture
def user_files(data_dir: Path, contents: dict[str, bytes]) -> Path:
    """A directory in $PACELINE_DATA with the four files."""
    data_dir.mkdir()
    for name, data in contents.items():
        (data_dir / name).write_bytes(data)
    return data_dir
