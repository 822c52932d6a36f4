"""What read_idx takes, and that nothing else gets past it."""

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


def refuse(data: bytes) -> str:
    with pytest.raises(DataError) as refused:
        read_idx(data)
    message = str(refused.value)
    assert message
    assert "\n" not in message
    return message


@given(arrays)
def test_what_is_written_is_read(array: NDArray[np.uint8]) -> None:
    for data in (write_idx(array), gzip.compress(write_idx(array), 1)):
        again = read_idx(data)
        assert again.shape == array.shape
        assert again.tobytes() == array.tobytes()


@given(arrays, st.data(), st.booleans())
def test_a_truncated_file_is_refused(array: NDArray[np.uint8], data: st.DataObject, packed: bool) -> None:
    whole = gzip.compress(write_idx(array), 1) if packed else write_idx(array)
    refuse(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(arrays, st.binary(min_size=1, max_size=20), st.booleans())
def test_bytes_after_the_end_are_refused(array: NDArray[np.uint8], extra: bytes, packed: bool) -> None:
    plain = write_idx(array)
    refuse(gzip.compress(plain + extra, 1) if packed else plain + extra)
    refuse(gzip.compress(plain, 1) + extra)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: b"\x1f\x8b\x08" + tail))
@settings(max_examples=300)
def test_garbage_gives_an_array_or_a_data_error(data: bytes) -> None:
    with suppress(DataError):
        assert write_idx(read_idx(data)) == data


@given(arrays, st.data())
def test_a_flipped_byte_never_escapes_as_another_error(array: NDArray[np.uint8], data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(write_idx(array), 1))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DataError):
        read_idx(bytes(packed))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.binary(max_size=50), st.booleans())
def test_a_header_that_lies_allocates_nothing(sizes: list[int], body: bytes, packed: bool) -> None:
    if math.prod(sizes) == len(body):
        return
    data = header(*sizes) + body
    data = gzip.compress(data, 1) if packed else data
    tracemalloc.start()
    try:
        refuse(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_zip_bomb_is_left_as_soon_as_it_passes_what_its_header_says() -> None:
    bomb = gzip.compress(header(10) + bytes(64 * 2**20), 1)
    tracemalloc.start()
    try:
        assert "more than its header says" in refuse(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_the_stream_is_bounded_and_comes_in_pieces() -> None:
    packed = gzip.compress(bytes(5_000_000), 1)
    chunks = [packed[i : i + 100] for i in range(0, len(packed), 100)]
    assert sum(map(len, gunzip(chunks, 5_000_000))) == 5_000_000
    with pytest.raises(DataError, match="more than the 4999999 bytes"):
        list(gunzip(chunks, 4_999_999))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "two zero bytes"),
        (header(3, kind=0x0D) + bytes(12), "type 0x0d is not supported"),
        (b"\0\0\x08\0", "0 dimensions"),
        (b"\0\0\x08\xff" + bytes(2000), "255 dimensions"),
        (header(MAX_BYTES + 1), "is refused"),
        (header(0, 2**32 - 1, 2**32 - 1), "is refused"),
        (header(2, 3) + bytes(5), "must have 18 bytes, has 17"),
    ],
)
def test_the_refusal_says_what_is_wrong(data: bytes, says: str) -> None:
    assert says in refuse(data)
