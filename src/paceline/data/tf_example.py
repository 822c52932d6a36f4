"""Parses a serialized tf.train.Example, a protocol buffer, without TensorFlow.

Example { Features features = 1 }, Features { map<string, Feature> feature = 1 }, and a Feature is one of
BytesList = 1, FloatList = 2 and Int64List = 3, whose field 1 holds the values, packed or not.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

Feature = NDArray[np.int64] | NDArray[np.float32]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOATS, _INTEGERS = 2, 3


def features_of(record: bytes) -> dict[str, Feature]:
    """The numeric features by name; DataError if the record is not an example."""
    found: dict[str, Feature] = {}
    for number, features in _fields(record):
        if number == 1 and isinstance(features, bytes):
            for _, entry in _fields(features):
                if isinstance(entry, bytes):
                    _add_entry(entry, found)
    return found


def _add_entry(entry: bytes, found: dict[str, Feature]) -> None:
    """Add one entry of the map, unless it is a list of bytes."""
    parts = dict(_fields(entry))
    name, feature = parts.get(1), parts.get(2)
    if not isinstance(name, bytes) or not isinstance(feature, bytes):
        raise DataError("a record is not an Example of TensorFlow")
    for kind, values in _fields(feature):
        if kind in (_FLOATS, _INTEGERS) and isinstance(values, bytes):
            read = _floats if kind == _FLOATS else _integers
            found[name.decode("utf-8", "replace")] = read(values)


def _floats(values: bytes) -> NDArray[np.float32]:
    parts = [part for number, part in _fields(values) if number == 1 and isinstance(part, bytes)]
    joined = b"".join(parts)
    if len(joined) % 4:
        raise DataError("a list of floats in a record has an incomplete number")
    return np.frombuffer(joined, "<f4")


def _integers(values: bytes) -> NDArray[np.int64]:
    found: list[int] = []
    for number, part in _fields(values):
        if number == 1 and isinstance(part, int):
            found.append(part)
        elif number == 1 and isinstance(part, bytes):
            position = 0
            while position < len(part):
                value, position = _varint(part, position)
                found.append(value)
    # Negative numbers are stored as unsigned ones of 64 bits.
    return np.array(found, np.uint64).view(np.int64)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number and value. Values of fixed size are returned as bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind, size = tag & 7, {_FIXED64: 8, _FIXED32: 4}.get(tag & 7)
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        if size is None or position + size > len(data):
            raise DataError("a record is not an Example of TensorFlow")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(data):
            break
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
    raise DataError("a record is not an Example of TensorFlow")
