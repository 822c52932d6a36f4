"""The idx format of MNIST: two zero bytes, a type, the sizes in big-endian order, then the values. Pure."""

import math
import struct
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

MAX_BYTES = 256 * 2**20
_MAX_DIMENSIONS = 8
_LONGEST_HEADER = 4 + 4 * _MAX_DIMENSIONS
_UINT8 = 8
_PIECE = 2**20


def read_idx(data: bytes) -> NDArray[np.uint8]:
    """The array in an idx file, plain or gzipped: a read-only view of its bytes."""
    plain = _gunzip_idx(data) if data[:2] == b"\x1f\x8b" else data
    shape, start = idx_header(plain[:_LONGEST_HEADER])
    check_length(shape, start, len(plain))
    return np.frombuffer(plain, dtype=np.uint8, offset=start).reshape(shape)


def write_idx(array: NDArray[np.uint8]) -> bytes:
    """The plain idx file of an array of bytes."""
    return write_header(array.shape) + np.ascontiguousarray(array).tobytes()


def write_header(shape: tuple[int, ...]) -> bytes:
    """What comes before the values, for who has them in pieces."""
    return struct.pack(f">2xBB{len(shape)}I", _UINT8, len(shape), *shape)


def idx_header(head: bytes) -> tuple[tuple[int, ...], int]:
    """The shape a header declares and where the values start; nothing is allocated on its word."""
    if len(head) < 4 or head[:2] != b"\0\0":
        raise DataError("not an idx file: it must start with two zero bytes, a type and a rank")
    kind, rank = head[2], head[3]
    if kind != _UINT8:
        raise DataError(f"idx type 0x{kind:02x} is not supported: only bytes (0x08) are")
    if not 1 <= rank <= _MAX_DIMENSIONS:
        raise DataError(f"idx file of {rank} dimensions: expected 1 to {_MAX_DIMENSIONS}")
    start = 4 + 4 * rank
    if len(head) < start:
        raise DataError(f"idx header is cut short: {len(head)} of {start} bytes")
    shape = struct.unpack_from(f">{rank}I", head, 4)
    # A zero among the sizes must not hide absurd ones beside it: NumPy refuses such shapes too, less politely.
    if math.prod(max(size, 1) for size in shape) > MAX_BYTES:
        raise DataError(f"idx file declares {_times(shape)} bytes: more than {MAX_BYTES} is refused")
    return shape, start


def check_length(shape: tuple[int, ...], start: int, length: int) -> None:
    """Refuses a file that is not exactly as long as its header says."""
    expected = start + math.prod(shape)
    if length != expected:
        raise DataError(f"idx file of {_times(shape)} must have {expected} bytes, has {length}")


def gunzip(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The plain bytes of one gzip stream, piece by piece, refused as soon as they pass the limit."""
    inflate = zlib.decompressobj(wbits=31)
    room = limit
    for chunk in chunks:
        while chunk:
            try:
                # One byte of room more than allowed, so that going past the limit shows.
                plain = inflate.decompress(chunk, min(room + 1, _PIECE))
            except zlib.error as why:
                raise DataError(f"damaged gzip data: {why}") from None
            room -= len(plain)
            if room < 0:
                raise DataError(f"gzip data holds more than the {limit} bytes expected")
            if inflate.unused_data:
                raise DataError("gzip data goes on after its end")
            if plain:
                yield plain
            chunk = inflate.unconsumed_tail
    if not inflate.eof:
        raise DataError("gzip data is cut short")


def _gunzip_idx(data: bytes) -> bytes:
    pieces: list[bytes] = []
    room = 0
    for piece in gunzip([data], _LONGEST_HEADER + MAX_BYTES):
        if not pieces:
            shape, start = idx_header(piece[:_LONGEST_HEADER])
            room = start + math.prod(shape)
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            raise DataError("gzipped idx file holds more than its header says")
    return b"".join(pieces)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
