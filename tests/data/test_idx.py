"""Reading idx files: valid files give their array, all others a DataError with the reason."""

import gzip
import math
import struct
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from paceline.data.idx import MAX_BYTES, gunzip, read_idx, write_idx
from paceline.errors import DataError

arrays = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=12))


def header(*sizes: int, kind: int = 8) -> bytes:
    return struct.pack(f">2xBB{len(sizes)}I", kind, len(sizes), *sizes)


def error_for(data: bytes) -> str:
    """The message of the DataError for this file."""
    with pytest.raises(DataError) as raised:
        read_idx(data)
    message = str(raised.value)
    assert message
    assert "\n" not in message
    return message


@given(arrays)
def test_reading_returns_what_was_written(array: NDArray[np.uint8]) -> None:
    for data in (write_idx(array), gzip.compress(write_idx(array), 1)):
        again = read_idx(data)
        assert again.shape == array.shape
        assert again.tobytes() == array.tobytes()


@given(arrays, st.data(), st.booleans())
def test_a_truncated_file_is_rejected(array: NDArray[np.uint8], data: st.DataObject, compressed: bool) -> None:
    whole = gzip.compress(write_idx(array), 1) if compressed else write_idx(array)
    error_for(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(arrays, st.binary(min_size=1, max_size=20), st.booleans())
def test_bytes_after_the_end_are_rejected(array: NDArray[np.uint8], extra: bytes, compressed: bool) -> None:
    plain = write_idx(array)
    error_for(gzip.compress(plain + extra, 1) if compressed else plain + extra)
    error_for(gzip.compress(plain, 1) + extra)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: b"\x1f\x8b\x08" + tail))
@settings(max_examples=300)
def test_random_bytes_give_an_array_or_a_data_error(data: bytes) -> None:
    with suppress(DataError):
        assert write_idx(read_idx(data)) == data


@given(arrays, st.data())
def test_a_changed_byte_gives_no_other_error_than_data_error(array: NDArray[np.uint8], data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(write_idx(array), 1))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DataError):
        read_idx(bytes(packed))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.binary(max_size=50), st.booleans())
def test_a_header_with_a_wrong_shape_allocates_no_memory(sizes: list[int], body: bytes, compressed: bool) -> None:
    if math.prod(sizes) == len(body):
        return
    data = header(*sizes) + body
    data = gzip.compress(data, 1) if compressed else data
    tracemalloc.start()
    try:
        error_for(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_is_rejected_as_soon_as_it_exceeds_its_header() -> None:
    bomb = gzip.compress(header(10) + bytes(64 * 2**20), 1)
    tracemalloc.start()
    try:
        assert "more than its header declares" in error_for(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_gunzip_reads_chunks_up_to_its_limit() -> None:
    packed = gzip.compress(bytes(5_000_000), 1)
    chunks = [packed[i : i + 100] for i in range(0, len(packed), 100)]
    assert sum(map(len, gunzip(chunks, 5_000_000))) == 5_000_000
    with pytest.raises(DataError, match="more than the 4999999 bytes"):
        list(gunzip(chunks, 4_999_999))


@pytest.mark.parametrize(
    ("data", "expected_text"),
    [
        (b"", "two zero bytes"),
        (header(3, kind=0x0D) + bytes(12), "type 0x0d is not supported"),
        (b"\0\0\x08\0", "0 dimensions"),
        (b"\0\0\x08\xff" + bytes(2000), "255 dimensions"),
        (header(MAX_BYTES + 1), "are allowed"),
        (header(0, 2**32 - 1, 2**32 - 1), "are allowed"),
        (header(2, 3) + bytes(5), "must have 18 bytes, has 17"),
    ],
)
def test_the_error_says_what_is_wrong(data: bytes, expected_text: str) -> None:
    assert expected_text in error_for(data)
