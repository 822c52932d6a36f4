"""Writes the files of a run in progress, and turns its journal into tables at the end.

Appends are small and not buffered, so a killed controller loses nothing that was written.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from filelock import FileLock

from paceline.errors import StoreError
from paceline.plan.place import RunPlan
from paceline.recording.reader import truncate_unused
from paceline.recording.record_files import record_files
from paceline.recording.recorder import clock_ns
from paceline.store.checksums import write_checksums
from paceline.store.header import EVENT as HEADER_EVENT
from paceline.store.header import RunHeader, header_fields, spec_fields
from paceline.store.journal import Entry, Journal, JournalReader, TaskRecords
from paceline.store.paths import RunPaths, append_whole, create_run, write_whole
from paceline.store.tables import SAMPLES_SCHEMA, STEPS_SCHEMA, sample_batches, step_batches, write_table
from paceline.store.unshipped import unshipped_records

_MAX_FILE_BYTES = 4 * 2**30
"""Largest file that a task may store with the run. A model that needs more is not expected on these hosts."""

_MAX_LOG_BYTES = 64 * 2**20
"""Largest log of a task. Agents ship less of each process, but a task may be restarted often."""
_LOG_IS_FULL = b"\n[paceline: this log has its largest size; later output is not stored.]\n"


class RunWriter:
    """Creates a run directory, writes its files and holds its lock until `release` or the end of the process."""

    def __init__(self, runs: Path, name: str, plan: RunPlan) -> None:
        self.paths = create_run(runs, name)
        self._lock = FileLock(self.paths.lock)
        self._lock.acquire()
        self._started_ns = clock_ns()
        self._checkpoint_keep = plan.spec.checkpoint_keep
        self.write_error: str | None = None
        """The first error while writing to the run directory, in one line; None while all writes succeed."""
        self.on_entry: Callable[[Entry], None] | None = None
        """Is given every entry of the journal."""
        self._journal = Journal(self.paths.journal)
        self._events = self.paths.events.open("ab", buffering=0)
        write_whole(self.paths.spec, tomli_w.dumps(_spec_fields(plan)).encode())

    @property
    def clock_zero_ns(self) -> int:
        """The controller's clock at the run's time 0."""
        return self._started_ns

    def now_s(self) -> float:
        return (clock_ns() - self._started_ns) / 1e9

    def write_header(self, header: RunHeader) -> None:
        """Write the header as the first event of the run."""
        self.event(HEADER_EVENT, **header_fields(header))

    def event(self, name: str, **fields: Any) -> None:
        """Append an event with the current time to events.jsonl."""
        fields = {"t_s": round(self.now_s(), 6), "event": name, **fields}
        with self.catch_disk_errors():
            append_whole(self._events, msgspec.json.encode(fields) + b"\n")

    def add(self, entry: Entry) -> None:
        """Append an entry to the journal."""
        if self.on_entry:
            self.on_entry(entry)
        if self.write_error and isinstance(entry, TaskRecords):
            # Records are lost to the journal after the first failed write. All of them are still in the record file of
            # the task, where `unshipped_records` looks for everything after the last record in the journal.
            return
        with self.catch_disk_errors():
            self._journal.add(entry)

    def log(self, name: str, text: bytes) -> None:
        """Append output of a task to its log file, until the file has its largest size."""
        with self.catch_disk_errors(), self.paths.log(name).open("ab") as file:
            left_bytes = _MAX_LOG_BYTES - file.tell()
            if left_bytes > 0:
                file.write(text if len(text) <= left_bytes else text[:left_bytes] + _LOG_IS_FULL)

    def write_stacks(self, text: str) -> str:
        """Write the stacks of the tasks; returns the path of the file relative to the run directory."""
        with self.catch_disk_errors():
            write_whole(self.paths.stacks, text.encode())
        return str(self.paths.stacks.relative_to(self.paths.directory))

    def attach(self, task: str, kind: str, name: str, data: bytes, *, last: bool) -> None:
        """Store a part of a file that a task sends; the file appears under its name after the last part."""
        folders = {
            "checkpoint": self.paths.checkpoints,
            "tensorboard": self.paths.tensorboard_of(task),
            "profile": self.paths.profile_of(task),
        }
        folder = folders.get(kind)
        if folder is None or Path(name).name != name:
            raise StoreError(
                f"{task} sent a file of kind '{kind}' named '{name}': the kind must be one of {', '.join(folders)}, "
                "and the name must not contain a directory"
            )
        partial = folder / f"{name}.partial"
        with self.catch_disk_errors():
            folder.mkdir(exist_ok=True, parents=True)
            with partial.open("ab") as file:
                if file.tell() + len(data) > _MAX_FILE_BYTES:
                    raise StoreError(f"file {name} of {task} is larger than the allowed {_MAX_FILE_BYTES} bytes")
                file.write(data)
            if last:
                partial.replace(folder / name)
                if kind == "checkpoint":
                    self._delete_old_checkpoints()

    def _delete_old_checkpoints(self) -> None:
        for old in self.paths.checkpoints_newest_first()[self._checkpoint_keep :]:
            old.unlink(missing_ok=True)

    def close(self) -> None:
        """Turn the journal into tables."""
        self._journal.close()
        self._events.close()
        self.write_error = None  # The tables may still fit: the space of the spool can be freed for them.
        with self.catch_disk_errors():
            consolidate(self.paths)

    def release(self) -> None:
        """Release the lock, so that other processes can read the run."""
        self._lock.release()
        self.paths.lock.unlink(missing_ok=True)

    @contextmanager
    def catch_disk_errors(self) -> Iterator[None]:
        """Keep the first failed write in `write_error` and do not raise it, so that the run keeps what it has."""
        try:
            yield
        except OSError as error:
            self.write_error = self.write_error or f"cannot write to {self.paths.directory}: {error.strerror or error}"


def consolidate(paths: RunPaths) -> None:
    """Turn the journal and the records that no agent had sent into parquet tables, and remove journal and spool.

    If it is interrupted, it can be called again: the journal is removed only after the tables are written.
    """
    if not paths.journal.exists():
        shutil.rmtree(paths.spool, ignore_errors=True)
        return
    try:
        _write_tables(paths)
    except OSError:
        # Record files reserve space for later records: free it and try again.
        for records in chain.from_iterable(record_files(paths.spool).values()):
            truncate_unused(records)
        _write_tables(paths)
    paths.journal.unlink()
    shutil.rmtree(paths.spool, ignore_errors=True)


def _write_tables(paths: RunPaths) -> None:
    journal = JournalReader(paths.journal)
    unshipped = unshipped_records(paths, journal)
    write_table(paths.steps, STEPS_SCHEMA, step_batches(journal, unshipped))
    write_table(paths.samples, SAMPLES_SCHEMA, sample_batches(journal))
    write_checksums(paths)


def _spec_fields(plan: RunPlan) -> dict[str, Any]:
    """The fields of spec.toml: `paceline run` with this file repeats the run."""
    fields = {key: value for key, value in spec_fields(plan.spec).items() if value is not None}
    if not fields["stop"]:
        del fields["stop"]  # A script ends by itself.
    del fields["repeat"]
    fields["layout"] = str(plan.layout)
    # Text with a comma would be read as several values; a list of one is not divided.
    return {key: [value] if isinstance(value, str) and "," in value else value for key, value in fields.items()}
