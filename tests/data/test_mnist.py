"""Where `ensure` gets MNIST from, what `load` returns, and which files are rejected."""

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.data import cache, mnist
from paceline.data.cache import FileSet, PinnedFile
from paceline.data.fetch import Source
from paceline.errors import DataError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def test_the_users_files_are_used_and_no_other_files_are_written(user_files: Path, contents: dict[str, bytes]) -> None:
    prepared = mnist.ensure([])
    data = mnist.load(examples=30)
    assert prepared.source == "mnist"
    assert not prepared.is_substitute
    assert {path.name for path in user_files.iterdir()} == set(contents)
    assert data.train_x.shape == (30, 784)
    assert data.test_x.shape == (20, 784)
    assert data.train_x.tobytes() == contents[IMAGES][16 : 16 + 30 * 784]
    assert data.train_y.tolist() == list(contents[LABELS][8:38])
    assert data.train_x.flags.c_contiguous
    assert not data.train_x.flags.writeable


@pytest.mark.parametrize("examples", [-1, 0, 41])
def test_more_examples_than_available_are_rejected(user_files: Path, examples: int) -> None:
    with pytest.raises(DataError, match="choose 1 to 40"):
        mnist.load(examples)


def test_a_wrong_file_of_the_user_is_an_error_that_names_both_hashes(
    user_files: Path, small_mnist: FileSet, complete_source: Source
) -> None:
    wrong = user_files / IMAGES
    wrong.write_bytes(b"mine")
    with pytest.raises(DataError) as raised:
        mnist.ensure([complete_source])
    for part in (wrong, small_mnist.files[0].sha256, hashlib.sha256(b"mine").hexdigest()):
        assert str(part) in str(raised.value)
    assert wrong.read_bytes() == b"mine"


def test_the_users_gz_files_are_uncompressed_and_a_wrong_one_is_named(
    user_files: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    for name, data in contents.items():
        (user_files / name).unlink()
        (user_files / f"{name}.gz").write_bytes(gzip.compress(data))
    assert mnist.ensure().source == "mnist"

    wrong = contents[IMAGES][::-1]
    (user_files / IMAGES).unlink()
    (user_files / f"{IMAGES}.gz").write_bytes(gzip.compress(wrong))
    with pytest.raises(DataError, match=rf"{IMAGES}\.gz: .*{hashlib.sha256(wrong).hexdigest()}"):
        mnist.ensure()


def test_files_missing_from_a_read_only_directory_are_stored_in_the_cache(
    user_files: Path, cache_dir: Path, complete_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_can_write", lambda _: False)  # File permissions do not apply to root.
    (user_files / "t10k-labels-idx1-ubyte").unlink()
    prepared = mnist.ensure([complete_source])
    assert [Path(path).parent for path in prepared.paths] == [user_files] * 3 + [cache_dir]
    assert mnist.load(prepared=prepared).test_y.shape == (20,)


def test_a_damaged_file_in_the_cache_is_fetched_again_or_removed(
    user_files: Path, contents: dict[str, bytes], complete_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PACELINE_DATA")
    monkeypatch.setattr(cache, "_cache_dir", lambda: user_files)
    damaged = user_files / IMAGES
    damaged.write_bytes(bytes(len(contents[IMAGES])))
    mnist.ensure([complete_source])
    assert damaged.read_bytes() == contents[IMAGES]

    damaged.write_bytes(bytes(len(contents[IMAGES])))
    assert mnist.ensure([]).synthetic
    assert mnist.find_prepared().synthetic


def test_digits_are_synthetic_and_give_the_reason_when_offline(
    data_dir: Path, small_mnist: FileSet, complete_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(PinnedFile(f"digits-{file.name}", file.size, None) for file in small_mnist.files)
    monkeypatch.setattr(mnist, "DIGITS", FileSet("digits", few))
    monkeypatch.setattr(mnist, "_DIGITS_PARTS", ((40, 1), (20, 2)))
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    with pytest.raises(DataError, match=r"call .*ensure\(\)"):
        mnist.load()
    prepared = mnist.ensure()
    assert prepared == mnist.find_prepared()
    assert prepared.synthetic
    assert prepared.is_substitute
    assert (
        prepared.source
        == "synthetic digits (MNIST is not available: network: not used, because PACELINE_OFFLINE is set)"
    )
    substitute = mnist.load()
    assert substitute.train_x.shape == (40, 784)

    real = mnist.ensure([complete_source])
    assert real.source == "mnist"  # MNIST is used as soon as it is available.
    assert mnist.find_prepared() == real
    kept = mnist.load(prepared=prepared)
    assert (kept.train_x == substitute.train_x).all()  # A run keeps the data it began with.


@pytest.mark.parametrize(
    ("path", "expected_text"), [("file", "must be a directory"), ("file/below", "cannot be created")]
)
def test_an_impossible_data_directory_is_rejected(
    tmp_path: Path, path: str, expected_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / path))
    with pytest.raises(DataError, match=expected_text):
        mnist.ensure([])


def test_a_cache_that_cannot_be_written_is_an_error(
    cache_dir: Path, complete_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_dir.touch()  # A file is in the place of the directory.
    monkeypatch.delenv("PACELINE_DATA", raising=False)
    with pytest.raises(DataError, match=r"cannot store data in .*: set PACELINE_DATA"):
        mnist.ensure([complete_source])


def test_importing_does_not_load_modules_that_only_a_fetch_needs() -> None:
    fetch_only = "'urllib.request', 'tarfile', 'subprocess', 'filelock', 'platformdirs', 'ssl', 'PIL'"
    heavy = f"{{{fetch_only}, 'tensorflow', 'torch'}}"
    code = f"import sys, paceline.data.registry; print(sorted({heavy} & set(sys.modules)))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
