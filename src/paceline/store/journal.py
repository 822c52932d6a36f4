"""The journal of a run in progress: measurements are appended as frames, each with its size and a checksum.

If the last frame is incomplete, only this frame is lost.
"""

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
"""Header of a frame: size of its body in bytes, CRC-32 of the body."""


class TaskAdded(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A task was placed on a host."""

    task: str
    host: str


class ClockOffset(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Add `offset_ns` to a time of this host to get the run's time, which is 0 at the run's start."""

    host: str
    offset_ns: Count
    uncertainty_ns: int


class TaskRecords(msgspec.Struct, frozen=True, array_like=True, tag="TaskRecords5"):
    """Step records of a task, as in its record file.

    The tag changes with the format of a record, so that records of another version are never decoded as this one.
    """

    task: str
    data: bytes


class _OldTaskRecords(msgspec.Struct, frozen=True, array_like=True, tag="TaskRecords"):
    """Records in the format of an older version; it is decoded only to be refused."""

    task: str
    data: bytes


class _OldTaskRecords2(_OldTaskRecords, frozen=True, array_like=True, tag="TaskRecords2"):
    pass


class _OldTaskRecords3(_OldTaskRecords, frozen=True, array_like=True, tag="TaskRecords3"):
    pass


class _OldTaskRecords4(_OldTaskRecords, frozen=True, array_like=True, tag="TaskRecords4"):
    pass


class HostSamples(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Samples of the resource use of a host."""

    host: str
    samples: list[HostSample]


Entry = TaskAdded | ClockOffset | TaskRecords | HostSamples


class Journal:
    """Appends entries to the journal file. Writes are not buffered, so a killed controller loses no entry."""

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
    """The entries up to the first incomplete or damaged one; StoreError if an older version wrote them."""
    decoder = msgspec.msgpack.Decoder(Entry | _OldTaskRecords | _OldTaskRecords2 | _OldTaskRecords3 | _OldTaskRecords4)
    with path.open("rb") as file:
        remaining_bytes = os.fstat(file.fileno()).st_size
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            size, checksum = _FRAME.unpack(head)
            remaining_bytes -= len(head) + size
            if remaining_bytes < 0:
                return  # The size is damaged or the frame incomplete: do not allocate memory for it.
            body = file.read(size)
            if len(body) < size or zlib.crc32(body) != checksum:
                return
            try:
                entry = decoder.decode(body)
            except DECODE_ERRORS:
                return
            if isinstance(entry, _OldTaskRecords):
                raise StoreError(
                    f"run {path.parent} was interrupted under an older version of Paceline, whose records this version "
                    "cannot read: run `paceline show` on it once with the older version"
                )
            yield entry
