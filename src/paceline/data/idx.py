"""Reads and writes the idx format of MNIST, without I/O.

An idx file has two zero bytes, a type, the number of dimensions, their sizes as big-endian 32-bit numbers, and the
values.
"""

import math
import struct
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

MAX_BYTES = 256 * 2**20
_MAX_DIMENSIONS = 8
_MAX_HEADER_BYTES = 4 + 4 * _MAX_DIMENSIONS
_UINT8 = 8
"""The idx type of unsigned bytes."""
_CHUNK_BYTES = 2**20


def read_idx(data: bytes) -> NDArray[np.uint8]:
    """The array in an idx file, uncompressed or gzipped, as a read-only view of its bytes."""
    plain = _gunzip_idx(data) if data[:2] == b"\x1f\x8b" else data
    shape, start = idx_header(plain[:_MAX_HEADER_BYTES])
    check_length(shape, start, len(plain))
    return np.frombuffer(plain, dtype=np.uint8, offset=start).reshape(shape)


def write_idx(array: NDArray[np.uint8]) -> bytes:
    """The content of the uncompressed idx file of an array of bytes."""
    return write_header(array.shape) + np.ascontiguousarray(array).tobytes()


def write_header(shape: tuple[int, ...]) -> bytes:
    """The header of an idx file, for callers that write the values in chunks."""
    return struct.pack(f">2xBB{len(shape)}I", _UINT8, len(shape), *shape)


def idx_header(header: bytes) -> tuple[tuple[int, ...], int]:
    """The shape in a header and the offset of the values; an error if the shape is larger than MAX_BYTES."""
    if len(header) < 4 or header[:2] != b"\0\0":
        raise DataError("not an idx file: it must start with two zero bytes, a type and a rank")
    kind, rank = header[2], header[3]
    if kind != _UINT8:
        raise DataError(f"idx type 0x{kind:02x} is not supported: only bytes (0x08) are")
    if not 1 <= rank <= _MAX_DIMENSIONS:
        raise DataError(f"idx file of {rank} dimensions: expected 1 to {_MAX_DIMENSIONS}")
    start = 4 + 4 * rank
    if len(header) < start:
        raise DataError(f"idx header is cut short: {len(header)} of {start} bytes")
    shape = struct.unpack_from(f">{rank}I", header, 4)
    # Count a size of 0 as 1, so that it does not hide absurd other sizes, for which NumPy would raise other errors.
    if math.prod(max(size, 1) for size in shape) > MAX_BYTES:
        raise DataError(f"idx file declares {_shape_text(shape)} bytes: at most {MAX_BYTES} are allowed")
    return shape, start


def check_length(shape: tuple[int, ...], start: int, length: int) -> None:
    """Raise an error if a file of `length` bytes does not have the length that its header declares."""
    expected = start + math.prod(shape)
    if length != expected:
        raise DataError(f"idx file of {_shape_text(shape)} must have {expected} bytes, has {length}")


def gunzip(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The uncompressed bytes of one gzip stream, in chunks; an error as soon as there are more than `limit`."""
    decompressor = zlib.decompressobj(wbits=31)  # 31: gzip format with the largest window
    remaining = limit
    for chunk in chunks:
        while chunk:
            try:
                # Ask for one byte more than allowed, so that data beyond the limit is noticed.
                plain = decompressor.decompress(chunk, min(remaining + 1, _CHUNK_BYTES))
            except zlib.error as error:
                raise DataError(f"damaged gzip data: {error}") from None
            remaining -= len(plain)
            if remaining < 0:
                raise DataError(f"gzip data holds more than the {limit} bytes expected")
            if decompressor.unused_data:
                raise DataError("gzip data is followed by other bytes")
            if plain:
                yield plain
            chunk = decompressor.unconsumed_tail
    if not decompressor.eof:
        raise DataError("gzip data is cut short")


def _gunzip_idx(data: bytes) -> bytes:
    chunks: list[bytes] = []
    remaining = 0
    for chunk in gunzip([data], _MAX_HEADER_BYTES + MAX_BYTES):
        if not chunks:
            shape, start = idx_header(chunk[:_MAX_HEADER_BYTES])
            remaining = start + math.prod(shape)
        chunks.append(chunk)
        remaining -= len(chunk)
        if remaining < 0:
            raise DataError("gzipped idx file contains more than its header declares")
    return b"".join(chunks)


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
