"""Readers of data files under arbitrary bytes: arrays or a one-line DataError, and no memory for sizes that a file
only claims."""

import gzip
import io
import lzma
import random
import tarfile
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from data.packages import ar_archive, debian_archive, tar_archive
from fuzz.mutations import mutants, quick_and_thorough
from paceline.data.archives import ar_member, extract, tar_members, unxz
from paceline.data.cifar_sources import _records
from paceline.data.idx import idx_header, read_idx, write_header, write_idx
from paceline.data.libsvm import LibsvmExamples
from paceline.errors import DataError

IDX = write_idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
LIBSVM = b"1 1:0.5 3:-2.25 7:1e3 # good\n-1 2:1\n0 1:1 2:2 3:3\n\n# all of it\n+1 10:0.125\n"
CIFAR = bytes(2 * 3073)


@quick_and_thorough()
def test_any_bytes_are_read_as_idx_or_refused(cases: int) -> None:
    good = [IDX, gzip.compress(IDX, 1), write_idx(np.zeros((0, 5), np.uint8))]
    refused = 0
    for data in mutants(good, cases):
        try:
            assert read_idx(data).nbytes <= max(len(data), 2**16)
        except DataError as error:
            refused += 1
            assert str(error).isprintable()
    assert refused > cases / 2


@pytest.mark.parametrize("shape", [(2**32 - 1,), (2**31, 2**29), (2**32 - 1,) * 8, (0, 2**32 - 1, 2**32 - 1)])
def test_sizes_claimed_by_an_idx_header_allocate_no_memory(shape: tuple[int, ...]) -> None:
    header = write_header(shape)
    tracemalloc.start()
    try:
        for data in (header, header + bytes(100), gzip.compress(header + bytes(100))):
            with pytest.raises(DataError):
                read_idx(data)
        with pytest.raises(DataError):
            idx_header(header)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


@quick_and_thorough(500)
def test_any_bytes_are_read_as_libsvm_or_refused(tmp_path: Path, cases: int) -> None:
    path, refused = tmp_path / "data", 0
    for number, data in enumerate(mutants([LIBSVM], cases)):
        path.write_bytes(gzip.compress(data, 1) if number % 10 == 0 else data)
        try:
            for batch in LibsvmExamples(path, path, features=20, nonzeros=5).test():
                indices, values = batch.inputs
                assert indices.min() >= 0
                assert indices.max() < 20
                assert np.isfinite(values).all()
                assert set(batch.target.tolist()) <= {0, 1}
        except DataError as error:
            refused += 1
            assert str(error).isprintable()
    assert 0 < refused < cases


@quick_and_thorough(300, 20_000)
def test_any_gzip_is_read_or_refused(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "data"
    for data in mutants([gzip.compress(LIBSVM, 1)], cases):
        path.write_bytes(data)
        with suppress(DataError):
            LibsvmExamples(path, path, features=20, nonzeros=5).test()


def test_compressed_file_with_an_endless_line_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b"1 1:1" + b" " * (64 * 2**20), 1))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="longer than"):
            LibsvmExamples(path, path, features=20, nonzeros=5).test()
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


@quick_and_thorough(300, 20_000)
def test_any_bytes_are_read_as_cifar_records_or_refused(tmp_path: Path, cases: int) -> None:
    path = tmp_path / "batch.bin"
    for data in mutants([CIFAR], cases):
        path.write_bytes(data)
        with suppress(DataError):
            assert _records(path).size == len(data)


def make_tar(tar_format: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format) as archive:
        for name in ("x" * 150, "./one", "./two"):
            entry = tarfile.TarInfo(name)
            entry.size = 100
            archive.addfile(entry, io.BytesIO(b"y" * 100))
    return stream.getvalue()


def change_tar_headers(data: bytes, rng: random.Random) -> bytes:
    """Put invalid values into the headers of a tar archive, with valid checksums."""
    changed = bytearray(data)
    for start in range(0, len(changed) - 511, 512):
        header = memoryview(changed)[start : start + 512]
        if bytes(header[257:262]) != b"ustar":
            continue
        if rng.random() < 0.5:
            header[156] = rng.choice(b"0123456789xgLKSDVMN")
        if rng.random() < 0.3:
            header[124:136] = rng.choice((b"\x80" + b"\xff" * 11, b"\xff" * 12, b"77777777777\0", b"00000000000\0"))
        if header[156] == ord("S"):
            header[386:483] = bytes(rng.choice(b"01234567\0 \xff\x80") for _ in range(97))
        header[148:156] = b"%06o\0 " % (256 + sum(header[:148]) + sum(header[156:]))
    return bytes(changed)


@quick_and_thorough(2_000)
def test_any_bytes_are_read_as_an_archive_or_refused_within_seconds(cases: int) -> None:
    """Regression test: a 512-byte header that claimed a member of many exabytes; tarfile read it without end."""
    good = [tar_archive({"./one": b"1" * 600, "./two": b"2"}), *map(make_tar, (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))]
    rng, longest = random.Random(5), 0.0
    for number, data in enumerate(mutants(good, cases)):
        start = time.perf_counter()
        with suppress(DataError):
            for _, _, content in tar_members(
                "x.tar", [change_tar_headers(data, rng) if number % 2 else data], ["./one"]
            ):
                assert sum(map(len, content)) <= max(2 * len(data), 4096)
        longest = max(longest, time.perf_counter() - start)
    assert longest < 5


@quick_and_thorough(300, 20_000)
def test_any_bytes_are_read_as_a_debian_package_or_refused(cases: int) -> None:
    good = [
        debian_archive({"./one": b"1" * 100}),
        ar_archive({"data.tar.xz": lzma.compress(b"x" * 1000, preset=0), "odd": b"1"}),
    ]
    for data in mutants(good, cases):
        with suppress(DataError):
            plain = unxz(ar_member("a.deb", [data], "data.tar.xz"), 2**16)
            for _, _, content in tar_members("a.deb", plain, ["./one"]):
                b"".join(content)


def test_names_in_an_archive_are_never_used_as_file_names(tmp_path: Path) -> None:
    names = ["../evil", "/tmp/paceline-evil", "a/../../evil", "./good"]
    link = tarfile.TarInfo("./link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    stream = io.BytesIO(tar_archive(dict.fromkeys(names, b"data")))
    inside = tmp_path / "inside"
    inside.mkdir()
    extract("x.tar", [stream.getvalue()], {"./good": inside / "0.member", "../evil": inside / "1.member"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["0.member", "1.member", "inside"]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(link)
    with pytest.raises(DataError, match="lacks"):
        extract("x.tar", [stream.getvalue()], {"./link": inside / "2.member"})
    assert not (inside / "2.member").exists()
