"""The journal of a run in progress: measurements are appended as frames, each with its size and a checksum.

If the last frame is incomplete, only this frame is lost.
"""

import os
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from paceline.errors import StoreError
from paceline.messages import DECODE_ERRORS, Count, HostSample
from paceline.recording.layout import RECORD_BYTES
from paceline.store.paths import append_whole
from paceline.store.regular_file import open_regular

_FRAME = struct.Struct("<II")
"""Header of a frame: size of its body in bytes, CRC-32 of the body."""


class TaskAdded(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A task was placed on a host."""

    task: str
    host: str


class ClockOffset(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Add `offset_ns` to a time of this host to get the run's time, which is 0 at the run's start.

    A host has one at its start and more during a long run, because clocks drift.
    """

    host: str
    offset_ns: Count
    uncertainty_ns: int
    host_ns: int = 0
    """The host's clock when it was measured."""


class TaskRecords(msgspec.Struct, frozen=True, array_like=True, tag="TaskRecords6"):
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


class _OldTaskRecords5(_OldTaskRecords, frozen=True, array_like=True, tag="TaskRecords5"):
    pass


class Restored(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """All tasks return to the checkpoint of `update`. Later updates in the records before this entry are undone."""

    update: Count


class HostSamples(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Samples of the resource use of a host."""

    host: str
    samples: list[HostSample]


Entry = TaskAdded | ClockOffset | TaskRecords | Restored | HostSamples


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
    return (entry for _, entry in _located_entries(path))


class JournalReader:
    """The measurements in a journal, by task and by host.

    One pass finds where they are. They are read again when they are needed, so that the memory does not grow with the
    length of the run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.task_hosts: dict[str, str] = {}
        self.clocks: dict[str, list[ClockOffset]] = {}
        """The measurements of each host's clock, in order."""
        self.restored: list[int] = []
        """The updates to which all tasks returned, in order. Each return begins a new attempt of every task."""
        self._records: dict[str, dict[int, array[int]]] = {}
        self._samples: dict[str, array[int]] = {}
        for position, entry in _located_entries(path):
            match entry:
                case TaskAdded(task, host):
                    self.task_hosts[task] = host
                case ClockOffset(host):
                    self.clocks.setdefault(host, []).append(entry)
                case Restored(update):
                    self.restored.append(update)
                case TaskRecords(task, data) if len(data) >= RECORD_BYTES:
                    attempts = self._records.setdefault(task, {})
                    attempts.setdefault(len(self.restored), array("q")).append(position)
                case HostSamples(host, _):
                    self._samples.setdefault(host, array("q")).append(position)

    @property
    def tasks(self) -> list[str]:
        """The tasks that have records."""
        return list(self._records)

    @property
    def hosts(self) -> list[str]:
        """The hosts that have samples."""
        return list(self._samples)

    def records(self, task: str, attempt: int) -> Iterator[bytes]:
        """The records of an attempt of a task, in the order in which they were written."""
        for entry in self._entries_at(self._records.get(task, {}).get(attempt, ())):
            if isinstance(entry, TaskRecords):
                yield entry.data

    def last_records(self, task: str) -> bytes:
        """The records of a task that were written last; empty if there are none."""
        attempts = self._records.get(task, {})
        entries = self._entries_at(attempts[max(attempts)][-1:] if attempts else ())
        return next((entry.data for entry in entries if isinstance(entry, TaskRecords)), b"")

    def samples(self, host: str) -> Iterator[list[HostSample]]:
        """The samples of a host, in the order in which they were written."""
        for entry in self._entries_at(self._samples.get(host, ())):
            if isinstance(entry, HostSamples):
                yield entry.samples

    def _entries_at(self, positions: Iterable[int]) -> Iterator[Entry]:
        with open_regular(self._path) as file:
            for position in positions:
                file.seek(position)
                if entry := next_entry(file):
                    yield entry


def _located_entries(path: Path) -> Iterator[tuple[int, Entry]]:
    """The entries up to the first incomplete or damaged one, each with its position in the file."""
    with open_regular(path) as file:
        position = 0
        while entry := next_entry(file):
            if isinstance(entry, _OldTaskRecords):
                raise StoreError(
                    f"run {path.parent} was interrupted under an older version of Paceline, whose records this version "
                    "cannot read: run `paceline show` on it once with the older version"
                )
            yield position, entry
            position = file.tell()


def next_entry(file: BinaryIO | BufferedReader) -> Any:
    """The entry at the current position of a journal; None if it is incomplete or damaged, or at the end."""
    head = file.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return None
    size, checksum = _FRAME.unpack(head)
    if size > os.fstat(file.fileno()).st_size - file.tell():
        return None  # The size is damaged or the frame incomplete: do not allocate memory for it.
    body = file.read(size)
    if len(body) < size or zlib.crc32(body) != checksum:
        return None
    try:
        return _DECODER.decode(body)
    except DECODE_ERRORS:
        return None


_DECODER = msgspec.msgpack.Decoder(
    Entry | _OldTaskRecords | _OldTaskRecords2 | _OldTaskRecords3 | _OldTaskRecords4 | _OldTaskRecords5
)
