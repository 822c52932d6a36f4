"""Finds the step records that no agent had sent to the controller when a run was killed.

They are still in the record files of the tasks, in the spool directory of the run.
"""

from collections.abc import Iterator
from pathlib import Path

from paceline.recording.layout import RECORD_BYTES
from paceline.recording.reader import RecordReader
from paceline.store.journal import TaskRecords, read_journal
from paceline.store.paths import RunPaths


def unshipped_records(paths: RunPaths) -> list[TaskRecords]:
    """The records in the spool of agents on this machine that are not in the journal."""
    files = sorted(paths.spool.glob("*/*.records"))
    shipped = _last_shipped(paths) if files else {}
    return [
        TaskRecords(file.stem, data) for file in files if (data := _records_after(file, shipped.get(file.stem, b"")))
    ]


def _last_shipped(paths: RunPaths) -> dict[str, bytes]:
    """The last record of each task in the journal."""
    last_records = {}
    if paths.journal.exists():
        for entry in read_journal(paths.journal):
            if isinstance(entry, TaskRecords) and len(entry.data) >= RECORD_BYTES:
                last_records[entry.task] = entry.data[-RECORD_BYTES:]
    return last_records


def _records_after(file: Path, last_shipped: bytes) -> bytes:
    """The records after the last shipped one.

    If the file does not contain that record, a restarted task wrote the file, and all of its records are new.
    """
    data = b"".join(_chunks(file))
    position = data.rfind(last_shipped) if last_shipped else -1
    # Records are unique because they contain times in nanoseconds. A match that does not start at the beginning of a
    # record is a coincidence.
    return data if position < 0 or position % RECORD_BYTES else data[position + RECORD_BYTES :]


def _chunks(file: Path) -> Iterator[bytes]:
    """The contents of a record file; nothing after the first error, and nothing of a file in another format."""
    reader = RecordReader(file)
    try:
        while chunk := reader.new():
            yield chunk
    except OSError:
        return
