"""Finds the step records that no agent had sent to the controller when a run was killed.

They are still in the record files of the tasks, in the spool directory of the run.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from paceline.recording.layout import RECORD_BYTES
from paceline.recording.reader import RecordReader
from paceline.recording.record_files import record_files
from paceline.store.journal import JournalReader
from paceline.store.paths import RunPaths

_RECORDS_AT_ONCE = 20_000


class UnshippedRecords:
    """The records of a task after the last shipped one. They are read each time that they are needed."""

    def __init__(self, files: Sequence[Path], last_shipped: bytes) -> None:
        """`files` are those of all processes of the task, in order."""
        self._files, self._first = _files_after(files, last_shipped)

    def __iter__(self) -> Iterator[bytes]:
        later = (_chunks(file) for file in self._files[1:])
        return chain(_chunks(self._files[0], self._first), *later)


def unshipped_records(paths: RunPaths, journal: JournalReader) -> dict[str, UnshippedRecords]:
    """By task, the records in the spool of agents on this machine that are not in the journal."""
    return {
        task: UnshippedRecords(files, journal.last_records(task)[-RECORD_BYTES:])
        for task, files in record_files(paths.spool).items()
    }


def _files_after(files: Sequence[Path], last_shipped: bytes) -> tuple[Sequence[Path], int]:
    """The files with records after the last shipped one, and the number of the first of these in the first file.

    If no file contains that record, an older version wrote the files: there, a restarted task overwrote the file of
    the process before it, and all records in it are new.
    """
    for number in reversed(range(len(files))) if last_shipped else ():
        if first := _number_after(files[number], last_shipped):
            return files[number:], first
    return files, 0


def _number_after(file: Path, last_shipped: bytes) -> int:
    """The number of the record after the last shipped one; 0 if the file does not contain that record."""
    found, first = 0, 0
    for chunk in _chunks(file):
        if (number := _last_number_of(last_shipped, chunk)) is not None:
            found = first + number + 1
        first += len(chunk) // RECORD_BYTES
    return found


def _last_number_of(record: bytes, chunk: bytes) -> int | None:
    """The number of the last record of the chunk that is equal to this one; None if there is none."""
    position = chunk.rfind(record)
    # Records are unique because they contain times in nanoseconds. A match that does not start at the beginning of a
    # record is a coincidence.
    while position >= 0 and position % RECORD_BYTES:
        position = chunk.rfind(record, 0, position + RECORD_BYTES - 1)
    return None if position < 0 else position // RECORD_BYTES


def _chunks(file: Path, first: int = 0) -> Iterator[bytes]:
    """The records of a file from a number on, up to the first error; nothing of a file in another format."""
    reader = RecordReader(file, first)
    try:
        while chunk := reader.new(_RECORDS_AT_ONCE):
            yield chunk
    except OSError:
        return
