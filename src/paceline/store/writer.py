"""Everything a run leaves on disk while it goes on. Appends are small and unbuffered: a kill loses nothing written."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import tomli_w
from filelock import FileLock

from paceline.errors import StoreError
from paceline.plan.place import RunPlan
from paceline.recording.reader import truncate_unused
from paceline.recording.recorder import clock_ns
from paceline.store import tables
from paceline.store.checksums import write_checksums
from paceline.store.header import EVENT as HEADER_EVENT
from paceline.store.header import RunHeader, header_fields, spec_fields
from paceline.store.journal import Entry, Journal, TaskRecords, read_journal
from paceline.store.paths import RunPaths, append_whole, create_run, write_whole
from paceline.store.unshipped import unshipped_records

_ATTACHED_BYTES = 4 * 2**30


class RunWriter:
    """Owns a new run directory; holds its lock until released or killed."""

    def __init__(self, runs: Path, name: str, plan: RunPlan) -> None:
        self.paths = create_run(runs, name)
        self._lock = FileLock(self.paths.lock)
        self._lock.acquire()
        self._started_ns = clock_ns()
        self._checkpoint_keep = plan.spec.checkpoint_keep
        self.write_error: str | None = None
        """Why what is measured can no longer be kept, in a line."""
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
        """The first line of the run's events."""
        self.event(HEADER_EVENT, **header_fields(header))

    def event(self, name: str, **fields: Any) -> None:
        """One line in the run's diary."""
        fields = {"t_s": round(self.now_s(), 6), "event": name, **fields}
        with self.catch_disk_errors():
            append_whole(self._events, msgspec.json.encode(fields) + b"\n")

    def add(self, entry: Entry) -> None:
        if self.write_error and isinstance(entry, TaskRecords):
            return  # Those that did not fit are still with the task: what follows them must be looked for there, too.
        with self.catch_disk_errors():
            self._journal.add(entry)

    def log(self, name: str, text: bytes) -> None:
        with self.catch_disk_errors(), self.paths.log(name).open("ab") as file:
            file.write(text)

    def write_stacks(self, text: str) -> str:
        """Keep where tasks were stuck; returns where that is, as a user finds it from the run's directory."""
        with self.catch_disk_errors():
            write_whole(self.paths.stacks, text.encode())
        return str(self.paths.stacks.relative_to(self.paths.directory))

    def attach(self, task: str, kind: str, name: str, data: bytes, *, last: bool) -> None:
        """A part of a file that a task leaves with the run."""
        folder = {"checkpoint": self.paths.checkpoints, "tensorboard": self.paths.tensorboard_of(task)}.get(kind)
        if folder is None or Path(name).name != name:
            raise StoreError(f"{task} sent a file of kind '{kind}' named '{name}': refused")
        partial = folder / f"{name}.partial"
        with self.catch_disk_errors():
            folder.mkdir(exist_ok=True)
            with partial.open("ab") as file:
                if file.tell() + len(data) > _ATTACHED_BYTES:
                    raise StoreError(f"{task}'s {name} is larger than {_ATTACHED_BYTES} bytes")
                file.write(data)
            if last:
                partial.replace(folder / name)
                if kind == "checkpoint":
                    self._drop_old_checkpoints()

    def _drop_old_checkpoints(self) -> None:
        for old in self.paths.checkpoints_newest_first()[self._checkpoint_keep :]:
            old.unlink(missing_ok=True)

    def close(self) -> None:
        """Turn the journal into tables."""
        self._journal.close()
        self._events.close()
        self.write_error = None  # The scratch space, which goes, may be what was missing.
        with self.catch_disk_errors():
            consolidate(self.paths)

    def release(self) -> None:
        """Let go of the run: from here on anyone may read it."""
        self._lock.release()
        self.paths.lock.unlink(missing_ok=True)

    @contextmanager
    def catch_disk_errors(self) -> Iterator[None]:
        """A write that fails is told once, as trouble of the run; it is no reason to lose what was kept so far."""
        try:
            yield
        except OSError as error:
            self.write_error = self.write_error or f"cannot write to {self.paths.directory}: {error.strerror or error}"


def consolidate(paths: RunPaths) -> None:
    """Journal and what agents had not shipped -> parquet. Done again without harm if it was cut short."""
    if not paths.journal.exists():
        shutil.rmtree(paths.spool, ignore_errors=True)
        return
    made = tables.build_tables(chain(read_journal(paths.journal), unshipped_records(paths)))
    try:
        _write(paths, *made)
    except OSError:
        # Room that was set aside for records to come may be what is missing.
        for records in paths.spool.glob("*/*.records"):
            truncate_unused(records)
        _write(paths, *made)
    paths.journal.unlink()
    shutil.rmtree(paths.spool, ignore_errors=True)


def _write(paths: RunPaths, steps: pl.DataFrame, samples: pl.DataFrame) -> None:
    for table, target in ((steps, paths.steps), (samples, paths.samples)):
        # Not by polars itself: it tells a full disk as a fault of the table's.
        data = io.BytesIO()
        table.write_parquet(data)
        write_whole(target, data.getbuffer())
    write_checksums(paths)


def _spec_fields(plan: RunPlan) -> dict[str, Any]:
    """The run as a spec file: `paceline run` on it makes the same run again."""
    fields = {key: value for key, value in spec_fields(plan.spec).items() if value is not None}
    del fields["repeat"]
    fields["layout"] = str(plan.layout)
    return fields
