"""A data set with MNIST's file names and a few random images, so that no test reaches the network."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from paceline.data import cache, mnist
from paceline.data.cache import FileSet, Pinned
from paceline.data.fetch import Offer, Source
from paceline.data.idx import write_idx


@pytest.fixture(scope="session")
def contents() -> dict[str, bytes]:
    """Name and bytes of the four plain files: 40 images to train, 20 to test."""
    rng = np.random.default_rng(0)
    files = {}
    for part, count in (("train", 40), ("t10k", 20)):
        images = rng.integers(256, size=(count, 28, 28), dtype=np.uint8)
        files[f"{part}-images-idx3-ubyte"] = write_idx(images)
        files[f"{part}-labels-idx1-ubyte"] = write_idx(rng.integers(10, size=count, dtype=np.uint8))
    return files


@pytest.fixture(scope="session")
def small(contents: dict[str, bytes]) -> FileSet:
    """What takes MNIST's place."""
    pins = (Pinned(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items())
    return FileSet("mnist", tuple(pins))


@pytest.fixture(scope="session")
def good(contents: dict[str, bytes]) -> Source:
    """A source that has every file."""

    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        for file in wanted:
            yield file, [contents[file.name]]

    return Source("stub", offer)


@pytest.fixture(autouse=True)
def own_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Paceline's own cache: never the real one of whoever runs the tests."""
    monkeypatch.setattr(cache, "_own_dir", lambda: tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def data_dir(tmp_path: Path, small: FileSet, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A $PACELINE_DATA that does not exist yet, and MNIST made small."""
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("PACELINE_OFFLINE", raising=False)
    monkeypatch.setattr(mnist, "MNIST", small)
    return tmp_path / "data"


@pytest.fixture
def visible(data_dir: Path) -> Callable[[], dict[str, bytes]]:
    """What lies in the data directory, dot files left out."""
    return lambda: {path.name: path.read_bytes() for path in data_dir.iterdir() if path.name[0] != "."}


@pytest.fixture
def users_files(data_dir: Path, contents: dict[str, bytes]) -> Path:
    """A $PACELINE_DATA where the user has put the four files."""
    data_dir.mkdir()
    for name, data in contents.items():
        (data_dir / name).write_bytes(data)
    return data_dir
