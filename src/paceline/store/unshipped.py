"""What tasks had recorded but nobody had collected when a run was cut short: it is still in their record files."""

from collections.abc import Iterator
from pathlib import Path

from paceline.recording.layout import RECORD_BYTES
from paceline.recording.reader import RecordReader
from paceline.store.journal import TaskRecords, read_journal
from paceline.store.paths import RunPaths


def unshipped_records(paths: RunPaths) -> list[TaskRecords]:
    """Records that are in the scratch space of agents on this machine and not in the journal."""
    files = sorted(paths.spool.glob("*/*.records"))
    shipped = _last_shipped(paths) if files else {}
    return [TaskRecords(file.stem, data) for file in files if (data := _after(file, shipped.get(file.stem, b"")))]


def _last_shipped(paths: RunPaths) -> dict[str, bytes]:
    """Each task's last record in the journal."""
    found = {}
    if paths.journal.exists():
        for entry in read_journal(paths.journal):
            if isinstance(entry, TaskRecords) and len(entry.data) >= RECORD_BYTES:
                found[entry.task] = entry.data[-RECORD_BYTES:]
    return found


def _after(file: Path, last: bytes) -> bytes:
    """All records after the last one shipped. A file without it is of a process that came later: all of it is new."""
    data = b"".join(_chunks(file))
    at = data.rfind(last) if last else -1
    # Times in nanoseconds make a record unlike any other; one across two records is none.
    return data if at < 0 or at % RECORD_BYTES else data[at + RECORD_BYTES :]


def _chunks(file: Path) -> Iterator[bytes]:
    reader = RecordReader(file)
    try:
        while chunk := reader.new():
            yield chunk
    except OSError:
        return
