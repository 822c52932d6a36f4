"""What `ensure` takes from where, what `load` makes of it, and what is refused."""

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.data import cache, mnist
from paceline.data.cache import FileSet, Pinned
from paceline.data.fetch import Source
from paceline.errors import DataError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def test_the_users_files_are_used_and_nothing_is_written_beside_them(
    users_files: Path, contents: dict[str, bytes]
) -> None:
    ready = mnist.ensure([])
    data = mnist.load(examples=30)
    assert ready.source == "mnist"
    assert not ready.stands_in
    assert {path.name for path in users_files.iterdir()} == set(contents)
    assert data.train_x.shape == (30, 784)
    assert data.test_x.shape == (20, 784)
    assert data.train_x.tobytes() == contents[IMAGES][16 : 16 + 30 * 784]
    assert data.train_y.tolist() == list(contents[LABELS][8:38])
    assert data.train_x.flags.c_contiguous
    assert not data.train_x.flags.writeable


@pytest.mark.parametrize("examples", [-1, 0, 41])
def test_more_examples_than_there_are_is_refused(users_files: Path, examples: int) -> None:
    with pytest.raises(DataError, match="choose 1 to 40"):
        mnist.load(examples)


def test_a_wrong_file_of_the_users_is_an_error_that_names_both_hashes(
    users_files: Path, small: FileSet, good: Source
) -> None:
    wrong = users_files / IMAGES
    wrong.write_bytes(b"mine")
    with pytest.raises(DataError) as refused:
        mnist.ensure([good])
    for part in (wrong, small.files[0].sha256, hashlib.sha256(b"mine").hexdigest()):
        assert str(part) in str(refused.value)
    assert wrong.read_bytes() == b"mine"


def test_the_users_gz_files_are_unpacked_and_a_wrong_one_is_named(
    users_files: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    for name, data in contents.items():
        (users_files / name).unlink()
        (users_files / f"{name}.gz").write_bytes(gzip.compress(data))
    assert mnist.ensure().source == "mnist"

    wrong = contents[IMAGES][::-1]
    (users_files / IMAGES).unlink()
    (users_files / f"{IMAGES}.gz").write_bytes(gzip.compress(wrong))
    with pytest.raises(DataError, match=rf"{IMAGES}\.gz: .*{hashlib.sha256(wrong).hexdigest()}"):
        mnist.ensure()


def test_a_read_only_directory_of_the_users_is_read_and_ours_takes_the_rest(
    users_files: Path, own_dir: Path, good: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_can_write", lambda _: False)  # permissions do not stop root
    (users_files / "t10k-labels-idx1-ubyte").unlink()
    ready = mnist.ensure([good])
    assert [Path(path).parent for path in ready.paths] == [users_files] * 3 + [own_dir]
    assert mnist.load(ready=ready).test_y.shape == (20,)


def test_a_damaged_file_in_our_own_cache_is_fetched_again_or_dropped(
    users_files: Path, contents: dict[str, bytes], good: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PACELINE_DATA")
    monkeypatch.setattr(cache, "_own_dir", lambda: users_files)
    damaged = users_files / IMAGES
    damaged.write_bytes(bytes(len(contents[IMAGES])))
    mnist.ensure([good])
    assert damaged.read_bytes() == contents[IMAGES]

    damaged.write_bytes(bytes(len(contents[IMAGES])))
    assert mnist.ensure([]).synthetic
    assert mnist.find_ready().synthetic


def test_offline_the_digits_are_synthetic_and_say_why(
    data_dir: Path, small: FileSet, good: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(Pinned(f"digits-{file.name}", file.size, None) for file in small.files)
    monkeypatch.setattr(mnist, "DIGITS", FileSet("digits", few))
    monkeypatch.setattr(mnist, "_DIGITS_PARTS", ((40, 1), (20, 2)))
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    with pytest.raises(DataError, match=r"call .*ensure\(\)"):
        mnist.load()
    ready = mnist.ensure()
    assert ready == mnist.find_ready()
    assert ready.synthetic
    assert ready.stands_in
    assert ready.source == "synthetic digits (MNIST could not be had: network: not asked, PACELINE_OFFLINE is set)"
    drawn = mnist.load()
    assert drawn.train_x.shape == (40, 784)

    real = mnist.ensure([good])
    assert real.source == "mnist"  # as soon as MNIST can be had it is taken
    assert mnist.find_ready() == real
    kept = mnist.load(ready=ready)
    assert (kept.train_x == drawn.train_x).all()  # but a run keeps what it began with


@pytest.mark.parametrize(("path", "says"), [("file", "must be a directory"), ("file/below", "cannot be made")])
def test_a_directory_that_cannot_be_one_is_refused(
    tmp_path: Path, path: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / path))
    with pytest.raises(DataError, match=says):
        mnist.ensure([])


def test_a_cache_that_cannot_be_written_is_told_in_a_line(
    own_dir: Path, good: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_dir.touch()  # a file where the directory should be
    monkeypatch.delenv("PACELINE_DATA", raising=False)
    with pytest.raises(DataError, match=r"cannot keep data in .*: set PACELINE_DATA"):
        mnist.ensure([good])


def test_the_import_loads_nothing_that_only_a_fetch_needs() -> None:
    needed = "'urllib.request', 'tarfile', 'subprocess', 'filelock', 'platformdirs', 'ssl', 'PIL'"
    heavy = f"{{{needed}, 'tensorflow', 'torch'}}"
    code = f"import sys, paceline.data.registry; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
