"""Members are read from archives, and damaged archives give a DataError and nothing else."""

import lzma
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.packages import ar_archive, debian_archive
from paceline.data.archives import ar_member, tar_members, unxz
from paceline.errors import DataError

fewer_examples = settings(max_examples=50)
contents = st.binary(max_size=300)


def in_chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def read_members(deb: bytes, chunk: int = 1_000) -> dict[str, bytes]:
    plain = unxz(ar_member("a.deb", in_chunks(deb, chunk), "data.tar.xz"), 2**20)
    return {name: b"".join(content) for name, _, content in tar_members("a.deb", plain, ["./one", "./two"])}


@given(contents, contents, st.integers(1, 400))
@fewer_examples
def test_a_debian_package_gives_its_members(one: bytes, two: bytes, chunk: int) -> None:
    deb = debian_archive({"./other": b"x", "./one": one, "../two": b"decoy", "./two": two})
    assert read_members(deb, chunk) == {"./one": one, "./two": two}


@given(contents, st.data())
@fewer_examples
def test_a_truncated_package_is_rejected(one: bytes, data: st.DataObject) -> None:
    deb = debian_archive({"./one": one, "./two": b"2"})
    with pytest.raises(DataError):
        read_members(deb[: data.draw(st.integers(0, len(deb) - 20))])


@given(contents, st.data())
@fewer_examples
def test_a_changed_byte_gives_no_other_error_than_data_error(one: bytes, data: st.DataObject) -> None:
    deb = bytearray(debian_archive({"./one": one, "./two": b"2"}))
    deb[data.draw(st.integers(0, len(deb) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DataError):
        read_members(bytes(deb))


@given(contents)
@fewer_examples
def test_random_bytes_are_rejected(garbage: bytes) -> None:
    for data in (garbage, b"!<arch>\n" + garbage, ar_archive({"data.tar.xz": garbage})):
        with pytest.raises(DataError):
            read_members(data)


def test_the_error_names_the_missing_member() -> None:
    with pytest.raises(DataError, match=r"a\.deb lacks \./two"):
        read_members(debian_archive({"./one": b"1"}))
    with pytest.raises(DataError, match=r"a\.deb lacks data\.tar\.xz"):
        read_members(ar_archive({"debian-binary": b"2.0\n"}))
    content = b"".join(ar_member("x", [ar_archive({"a": b"odd", "b": b"this"})], "b"))
    assert content == b"this"


def test_an_xz_bomb_is_rejected_as_soon_as_it_exceeds_the_limit() -> None:
    bomb = lzma.compress(bytes(64 * 2**20), preset=0)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="more than was expected"):
            list(unxz([bomb], 1_000))
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
