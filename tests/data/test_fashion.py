"""Fashion-MNIST: its sources, its folder (the file names are those of MNIST), and the error when it is missing."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from data.packages import debian_archive
from paceline.data import fashion, mnist, sources
from paceline.data.cache import FileSet, PinnedFile
from paceline.data.fetch import Source
from paceline.errors import DataError

FOLDER = "fashion-mnist"


@pytest.fixture(autouse=True)
def small_fashion(data_dir: Path, clothes: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    files = (PinnedFile(f"{FOLDER}/{name}", len(d), hashlib.sha256(d).hexdigest()) for name, d in clothes.items())
    monkeypatch.setattr(fashion, "FASHION", FileSet(FOLDER, tuple(files)))
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def clothes(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Files like those of MNIST, with the bytes of the images reversed."""
    return {name: data[:16] + data[:15:-1] if "images" in name else data for name, data in contents.items()}


def test_the_users_gz_files_are_used_and_mnist_is_not_changed(
    data_dir: Path, clothes: dict[str, bytes], complete_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    (data_dir / FOLDER).mkdir(parents=True)
    for name, data in clothes.items():
        (data_dir / FOLDER / f"{name}.gz").write_bytes(gzip.compress(data))
    digits = mnist.load(prepared=mnist.ensure([complete_source]))
    prepared = fashion.ensure()
    assert prepared == fashion.find_prepared()
    assert prepared.source == "fashion-mnist"
    assert {Path(path).parent for path in prepared.paths} == {data_dir / FOLDER}
    images = fashion.load(30)
    assert images.train_x.shape == (30, 784)
    assert images.train_x.tobytes() == clothes["train-images-idx3-ubyte"][16 : 16 + 30 * 784]
    assert (digits.train_x == mnist.load().train_x).all()
    assert np.any(digits.train_x[:30] != images.train_x)


def test_the_error_names_a_wrong_file_of_the_user(data_dir: Path, complete_source: Source) -> None:
    (data_dir / FOLDER).mkdir(parents=True)
    wrong = data_dir / FOLDER / "t10k-labels-idx1-ubyte"
    wrong.write_bytes(b"mine")
    with pytest.raises(DataError, match=rf"{wrong} is not the file expected"):
        fashion.ensure([])


def test_files_are_fetched_from_a_mirror_under_their_original_names(tmp_path: Path, clothes: dict[str, bytes]) -> None:
    served = tmp_path / "served"
    served.mkdir()
    for name, data in clothes.items():
        (served / f"{name}.gz").write_bytes(gzip.compress(data))
    assert not fashion.ensure([sources.mirror(served.as_uri())]).synthetic


def test_files_are_fetched_from_a_debian_package(
    tmp_path: Path, clothes: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = tmp_path / "pool" / "d" / "data-of-clothes"
    pool.mkdir(parents=True)
    files = {f"./usr/share/clothes/{name}.gz": gzip.compress(data) for name, data in clothes.items()}
    deb = pool / "data-of-clothes_1~2_all.deb"
    deb.write_bytes(debian_archive(files))
    monkeypatch.setattr(sources, "_DEBIAN_POOL", (tmp_path / "pool").as_uri())
    package = sources.debian_package("data-of-clothes", "1~2", folder="usr/share/clothes")
    assert not fashion.ensure([package]).synthetic
    assert fashion.load().test_x.shape == (20, 784)

    Path(fashion.find_prepared().paths[0]).unlink()
    deb.write_bytes(deb.read_bytes()[:-3_000])
    with pytest.raises(DataError, match=r"debian data-of-clothes: .*cut short"):
        fashion.ensure([package])


def test_the_error_tells_which_files_to_put_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    with pytest.raises(DataError) as raised:
        fashion.ensure()
    for part in ("PACELINE_OFFLINE is set", "train-images-idx3-ubyte.gz", "folder fashion-mnist", "PACELINE_DATA"):
        assert part in str(raised.value)
    with pytest.raises(DataError, match=r"call .*fashion\.ensure\(\)"):
        fashion.load()
