"""What is measured while a run goes on, appended frame by frame; a torn tail costs only itself."""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.errors import StoreError
from paceline.messages import DECODE_ERRORS, Count, HostSample
from paceline.store.paths import append_whole

_FRAME = struct.Struct("<II")


class TaskAdded(msgspec.Struct, frozen=True, array_like=True, tag=True):
    task: str
    host: str


class ClockOffset(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Add `offset_ns` to a time of this host to get the run's time, which is 0 at the run's start."""

    host: str
    offset_ns: Count
    uncertainty_ns: int


class TaskRecords(msgspec.Struct, frozen=True, array_like=True, tag="TaskRecords5"):
    """The tag changes with the format of a record: one of another version is not to be taken for one of this."""

    task: str
    data: bytes


class _OldTaskRecords(msgspec.Struct, frozen=True, array_like=True, tag="TaskRecords"):
    task: str
    data: bytes


class _OldTaskRecords2(_OldTaskRecords, frozen=True, array_like=True, tag="TaskRecords2"):
    pass


class _OldTaskRecords3(_OldTaskRecords, frozen=True, array_like=True, tag="TaskRecords3"):
    pass


class _OldTaskRecords4(_OldTaskRecords, frozen=True, array_like=True, tag="TaskRecords4"):
    pass


class HostSamples(msgspec.Struct, frozen=True, array_like=True, tag=True):
    host: str
    samples: list[HostSample]


Entry = TaskAdded | ClockOffset | TaskRecords | HostSamples


class Journal:
    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._encoder = msgspec.msgpack.Encoder()

    def add(self, entry: Entry) -> None:
        body = self._encoder.encode(entry)
        frame = _FRAME.pack(len(body), zlib.crc32(body)) + body
        append_whole(self._file, frame)

    def close(self) -> None:
        self._file.close()


def read_journal(path: Path) -> Iterator[Entry]:
    """Entries up to the first that is torn or damaged; StoreError if another version made them."""
    decoder = msgspec.msgpack.Decoder(Entry | _OldTaskRecords | _OldTaskRecords2 | _OldTaskRecords3 | _OldTaskRecords4)
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            size, checksum = _FRAME.unpack(head)
            left -= len(head) + size
            if left < 0:
                return  # Room is not even made for what cannot be there.
            body = file.read(size)
            if len(body) < size or zlib.crc32(body) != checksum:
                return
            try:
                entry = decoder.decode(body)
            except DECODE_ERRORS:
                return
            if isinstance(entry, _OldTaskRecords):
                what = f"{path.parent} was cut short under an older version of Paceline"
                raise StoreError(f"{what}: read it once with that one")
            yield entry
