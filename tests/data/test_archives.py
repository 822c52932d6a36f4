"""Archives by the byte: what is in them comes out, and damage is told in a line."""

import lzma
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.packages import ar, debian
from paceline.data.archives import ar_member, tar_members, unxz
from paceline.errors import DataError

patient = settings(max_examples=50)
contents = st.binary(max_size=300)


def chopped(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def members(deb: bytes, piece: int = 1_000) -> dict[str, bytes]:
    plain = unxz(ar_member("a.deb", chopped(deb, piece), "data.tar.xz"), 2**20)
    return {name: b"".join(content) for name, _, content in tar_members("a.deb", plain, ["./one", "./two"])}


@given(contents, contents, st.integers(1, 400))
@patient
def test_a_debian_package_gives_its_members(one: bytes, two: bytes, piece: int) -> None:
    deb = debian({"./other": b"x", "./one": one, "../two": b"decoy", "./two": two})
    assert members(deb, piece) == {"./one": one, "./two": two}


@given(contents, st.data())
@patient
def test_a_truncated_package_is_refused(one: bytes, data: st.DataObject) -> None:
    deb = debian({"./one": one, "./two": b"2"})
    with pytest.raises(DataError):
        members(deb[: data.draw(st.integers(0, len(deb) - 20))])


@given(contents, st.data())
@patient
def test_a_flipped_byte_never_escapes_as_another_error(one: bytes, data: st.DataObject) -> None:
    deb = bytearray(debian({"./one": one, "./two": b"2"}))
    deb[data.draw(st.integers(0, len(deb) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DataError):
        members(bytes(deb))


@given(contents)
@patient
def test_garbage_is_refused(garbage: bytes) -> None:
    for data in (garbage, b"!<arch>\n" + garbage, ar({"data.tar.xz": garbage})):
        with pytest.raises(DataError):
            members(data)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(DataError, match=r"a\.deb lacks \./two"):
        members(debian({"./one": b"1"}))
    with pytest.raises(DataError, match=r"a\.deb lacks data\.tar\.xz"):
        members(ar({"debian-binary": b"2.0\n"}))
    (found,) = (b"".join(ar_member("x", [ar({"a": b"odd", "b": b"this"})], "b")),)
    assert found == b"this"


def test_an_xz_bomb_is_left_as_soon_as_it_passes_the_limit() -> None:
    bomb = lzma.compress(bytes(64 * 2**20), preset=0)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="more than was expected"):
            list(unxz([bomb], 1_000))
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
