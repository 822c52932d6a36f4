"""Sparse examples from a user's TFRecord files of tf.train.Example, read without TensorFlow.

An example has the features `label` (one integer), `index` (integers from 0) and `value` (floats, as many); other names
can be given. Worker i of n reads the files i, i + n and so on, in their order; see own_files.py. Checksums of the
records are verified.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from paceline.data.batches import Batch, Share
from paceline.data.crc32c import masked_crc32c
from paceline.data.own_files import FilesStream, own_files
from paceline.data.tf_example import Feature, features_of
from paceline.errors import DataError

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_TEST_BATCH = 2_000


class Fields(msgspec.Struct, frozen=True):
    """The names of the features of an example, and its limits."""

    features: int
    """The number of possible indices."""
    nonzeros: int
    """The largest number of indices in an example; every example is padded to it."""
    label: str = "label"
    index: str = "index"
    value: str = "value"


class TfrecordExamples:
    """Batches of (indices, values) and labels 0 or 1; short examples are padded with index 0 and value 0."""

    def __init__(self, train_files: Sequence[Path | str], test_files: Sequence[Path | str], fields: Fields) -> None:
        self._train, self._test = [Path(path) for path in train_files], [Path(path) for path in test_files]
        self._fields = fields

    def stream(self, share: Share) -> FilesStream:
        paths = own_files(self._train, share)
        return FilesStream([_TfrecordFile(path, self._fields, share.batch) for path in paths], paths, share.batch)

    def test(self) -> list[Batch]:
        records = [(path, record) for path in self._test for record in read_records(path)]
        if not records:
            raise DataError(f"{', '.join(map(str, self._test))}: no test examples")
        parts = (records[start : start + _TEST_BATCH] for start in range(0, len(records), _TEST_BATCH))
        return [_filled(part, self._fields) for part in parts]


class _TfrecordFile:
    """The batches of one file. The position of every record is found first, without reading the records."""

    def __init__(self, path: Path, fields: Fields, batch: int) -> None:
        self._path, self._fields, self._size = path, fields, batch
        self._starts = list(_record_starts(path))

    @property
    def batches(self) -> int:
        return len(self._starts) // self._size

    def find(self, number: int) -> Batch | None:
        if number >= self.batches:
            return None
        starts = self._starts[number * self._size : (number + 1) * self._size]
        with _opened(self._path) as file:
            return _filled([(self._path, _record(file, self._path, start)) for start in starts], self._fields)


def read_records(path: Path) -> Iterator[bytes]:
    """All records of a file, verified."""
    with _opened(path) as file:
        for start in _record_starts(path):
            yield _record(file, path, start)


def _record_starts(path: Path) -> Iterator[int]:
    """The position of each record; DataError if the file is truncated."""
    with _opened(path) as file:
        size, start = path.stat().st_size, 0
        while start < size:
            file.seek(start)
            header = file.read(_HEADER.size)
            length = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else size
            end = start + _HEADER.size + length + _FOOTER.size
            if end > size:
                raise DataError(f"{path}: the record at byte {start} is truncated or not a TFRecord")
            yield start
            start = end


def _record(file: "_File", path: Path, start: int) -> bytes:
    file.seek(start)
    header = file.read(_HEADER.size)
    length, length_crc = _HEADER.unpack(header)
    data = file.read(length)
    (data_crc,) = _FOOTER.unpack(file.read(_FOOTER.size))
    if masked_crc32c(header[:8]) != length_crc or masked_crc32c(data) != data_crc:
        raise DataError(f"{path}: the record at byte {start} is damaged: its checksum does not match")
    return data


class _File:
    """A file whose errors are reported as DataError."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def seek(self, position: int) -> None:
        self._file.seek(position)

    def read(self, count: int) -> bytes:
        return self._file.read(count)


_opened = _File


def _filled(records: Sequence[tuple[Path, bytes]], fields: Fields) -> Batch:
    indices = np.zeros((len(records), fields.nonzeros), np.int64)
    values = np.zeros((len(records), fields.nonzeros), np.float32)
    labels = np.zeros(len(records), np.int64)
    for row, (path, record) in enumerate(records):
        try:
            own_indices, own_values, labels[row] = _parsed(features_of(record), fields)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        indices[row, : len(own_indices)] = own_indices
        values[row, : len(own_values)] = own_values
    return Batch((indices, values), labels)


def _parsed(features: dict[str, Feature], fields: Fields) -> tuple[Feature, Feature, int]:
    missing = [name for name in (fields.label, fields.index, fields.value) if name not in features]
    if missing:
        raise DataError(f"an example has no feature '{missing[0]}': it has {', '.join(sorted(features)) or 'none'}")
    label, indices, values = (features[name] for name in (fields.label, fields.index, fields.value))
    if len(label) != 1 or int(label[0]) not in (-1, 0, 1):
        raise DataError("the label of an example must be one number: 1, or 0 or -1")
    if len(indices) != len(values) or len(indices) > fields.nonzeros:
        raise DataError(
            f"an example has {len(indices)} indices and {len(values)} values: as many of both are needed, "
            f"and at most {fields.nonzeros}"
        )
    if len(indices) and not (indices.min() >= 0 and indices.max() < fields.features):
        raise DataError(f"an index is out of range: must be 0 to {fields.features - 1}")
    return indices, values, int(label[0] > 0)
