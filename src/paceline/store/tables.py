"""Builds the two tables of a run, steps and samples, from its journal. Times are on the run's clock.

Tables are built and written in parts, so that the memory does not grow with the length of the run.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np
import polars as pl
from msgspec import structs
from polars.io.plugins import register_io_source

from paceline.messages import HostSample, LinkCount
from paceline.recording.layout import FIELDS, FINAL, RECORD_BYTES, TRACED, RecordKind
from paceline.recording.rows import decode
from paceline.store.journal import ClockOffset, JournalReader
from paceline.store.paths import writing_whole

Table = TypeVar("Table", pl.DataFrame, pl.LazyFrame)
_RECORD_COLUMNS = {column: numpy_type for field in FIELDS for column, numpy_type in field.columns.items()}
STEPS_SCHEMA: dict[str, Any] = {
    "task": pl.String,
    "host": pl.String,
    **{column: pl.Series(np.empty(0, numpy_type)).dtype for column, numpy_type in _RECORD_COLUMNS.items()},
    "undone": pl.Boolean,
}
_BYTES_AT_ONCE = 20_000 * RECORD_BYTES
_SAMPLES_AT_ONCE = 5_000
"""Parts of this size become rows at once: larger ones take more memory and are no faster."""
_ROWS_PER_GROUP = 131_072
"""Rows of a row group of a parquet file, which is the part that a reader can skip or read by itself."""
_COUNTS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")
TASK_FIELDS: dict[str, Any] = {
    "task": pl.String,
    "cpu_s": pl.Float64,
    "rss_bytes": pl.Int64,
    "threads": pl.Int64,
    "run_wait_s": pl.Float64,  # null if the system does not measure it, and in runs older than this field
}
SAMPLES_SCHEMA: dict[str, Any] = {
    "host": pl.String,
    "t_s": pl.Float64,
    "cpu_s": pl.Float64,
    "cores_busy_s": pl.List(pl.Float64),
    "memory_bytes": pl.Int64,
    **{f"{side}_{count}": pl.Int64 for side in ("external", "loopback") for count in _COUNTS},
    "disk_read_bytes": pl.Int64,
    "disk_write_bytes": pl.Int64,
    "tasks": pl.List(pl.Struct(TASK_FIELDS)),
    "load_average": pl.Float64,
    "memory_free_bytes": pl.Int64,
    "quota_periods": pl.Int64,
    "quota_throttled": pl.Int64,
}
_NULL_IN_OLDER_RUNS = ("load_average", "memory_free_bytes", "quota_periods", "quota_throttled")
_ZERO_IN_OLDER_RUNS = ("examples", "micro_batches")


class Undone(NamedTuple):
    """Which records of one attempt of a task were undone, because all tasks returned to a checkpoint later."""

    kept_update: float = math.inf
    """The last update that was kept."""
    first_step: float = math.inf
    """The number of the first step that was undone."""


def step_batches(journal: JournalReader, unshipped: Mapping[str, Iterable[bytes]]) -> Iterator[pl.DataFrame]:
    """The rows of the table `steps` in parts, by task. Damaged or missing entries lose only their own rows.

    `unshipped` has the records of each task that are not in the journal.
    """
    last_attempt = len(journal.restored)
    for task in sorted({*journal.tasks, *unshipped}):
        host = journal.task_hosts.get(task, "?")
        for attempt in range(last_attempt + 1):
            undone = _undone_of(journal, task, attempt)
            unsent = unshipped.get(task, ()) if attempt == last_attempt else ()
            for data in _regrouped(chain(journal.records(task, attempt), unsent)):
                yield step_rows(task, host, data, journal.clocks.get(host, ()), undone)


def sample_batches(journal: JournalReader) -> Iterator[pl.DataFrame]:
    """The rows of the table `samples` in parts, by host.

    Samples of a host whose clock was not compared with the controller's are left out: their time is not known. A run
    that is interrupted while its hosts start has such samples.
    """
    for host in sorted(journal.hosts):
        if not (clocks := journal.clocks.get(host)):
            continue
        samples: list[HostSample] = []
        for new in journal.samples(host):
            samples += new
            if len(samples) >= _SAMPLES_AT_ONCE:
                yield sample_rows(host, samples, clocks)
                samples = []
        if samples:
            yield sample_rows(host, samples, clocks)


def write_table(target: Path, schema: Mapping[str, Any], batches: Iterator[pl.DataFrame]) -> None:
    """Write a parquet file from its parts, of which only a few are in memory at a time; it appears complete."""
    with writing_whole(target) as file:
        watched = _WatchedFile(file)
        try:
            source = register_io_source(lambda *_: batches, schema=pl.Schema(schema))
            source.sink_parquet(cast(BinaryIO, watched), row_group_size=_ROWS_PER_GROUP)
        except pl.exceptions.PolarsError:
            if watched.error:
                raise watched.error from None
            raise


class _WatchedFile:
    """A file that remembers a failed write: polars reports a full disk as an error of the table."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _regrouped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same records in chunks of about equal size; an incomplete record at the end of a chunk is left out."""
    group = bytearray()
    for chunk in chunks:
        whole = len(chunk) - len(chunk) % RECORD_BYTES
        for at in range(0, whole, _BYTES_AT_ONCE):
            group += chunk[at : min(at + _BYTES_AT_ONCE, whole)]
            if len(group) >= _BYTES_AT_ONCE:
                yield bytes(group)
                group.clear()
    if group:
        yield bytes(group)


def on_run_clock(host_ns: np.ndarray, clocks: Sequence[ClockOffset]) -> np.ndarray:
    """Times of a host's clock as times of the run; the offset is interpolated between measurements of the clock."""
    if not clocks:
        return host_ns
    # Relative to the first offset, because an offset itself may need more digits than a float has.
    first = clocks[0].offset_ns
    drift = np.interp(host_ns, [clock.host_ns for clock in clocks], [clock.offset_ns - first for clock in clocks])
    on_run_clock: np.ndarray = host_ns + first + np.rint(drift).astype(np.int64)
    return on_run_clock


def _undone_of(journal: JournalReader, task: str, attempt: int) -> Undone:
    """What was undone of an attempt of a task, which is what it recorded between two returns to a checkpoint."""
    later = journal.restored[attempt:]
    if not later:
        return Undone()
    kept_update, first_step = min(later), math.inf
    for data in _regrouped(journal.records(task, attempt)):
        rows = decode(data)
        undone_steps = rows["step"][(rows["update"] > kept_update) & (rows["kind"] == RecordKind.STEP)]
        if len(undone_steps):
            first_step = min(first_step, undone_steps.min())
    return Undone(kept_update, first_step)


def _is_undone(rows: np.ndarray, undone: Undone) -> np.ndarray:
    """Which rows belong to a step or an evaluation after the update that was kept."""
    kind = rows["kind"]
    undone_eval = (kind == RecordKind.EVAL) & (rows["update"] > undone.kept_update)
    between_steps = (kind == RecordKind.EVAL) | (kind == RecordKind.CHECKPOINT)
    # A phase has the number of its step, but not of its update.
    is_undone: np.ndarray = np.where(between_steps, undone_eval, rows["step"] >= undone.first_step)
    return is_undone


def upgrade_table(table: Table, schema: dict[str, Any]) -> Table:
    """A table of any version with the current schema.

    Of what an older version lacks, a Boolean column is false, a count is 0; what was not measured and fields of a task
    are null.
    """
    missing = [name for name in schema if name not in table.collect_schema()]
    added = [pl.lit(False).alias(name) for name in missing if schema[name] == pl.Boolean]
    added += [pl.lit(0).cast(schema[name]).alias(name) for name in missing if name in _ZERO_IN_OLDER_RUNS]
    added += [pl.lit(None, schema[name]).alias(name) for name in missing if name in _NULL_IN_OLDER_RUNS]
    return table.with_columns(added).select(list(schema)).cast(pl.Schema(schema))


def step_rows(task: str, host: str, data: bytes, clocks: Sequence[ClockOffset], undone: Undone) -> pl.DataFrame:
    """The rows of a task's records: one for each phase, step and evaluation."""
    records = decode(data)
    kind_names = np.array([kind.name.lower() for kind in RecordKind])
    is_eval = records["kind"] == RecordKind.EVAL
    start_ns = on_run_clock(records["start_ns"].astype(np.int64), clocks)
    return pl.DataFrame(
        {
            "task": pl.repeat(task, len(records), eager=True),
            "host": pl.repeat(host, len(records), eager=True),
            # A damaged kind must not be an index outside of the names.
            "kind": kind_names[np.minimum(records["kind"], len(kind_names) - 1)],
            "step": records["step"],
            "update": records["update"],
            "t_s": start_ns / 1e9,
            "duration_s": records["duration_ns"] / 1e9,
            "loss": records["loss"],
            "accuracy": np.where(is_eval, records["accuracy"], np.float32("nan")),
            "staleness": records["staleness"],
            "examples": records["examples"],
            "micro_batches": records["micro_batches"],
            "traced": (records["flags"] & TRACED) > 0,
            "final": (records["flags"] & FINAL) > 0,
            "undone": _is_undone(records, undone),
        },
        schema=STEPS_SCHEMA,
    )


def sample_rows(host: str, samples: Sequence[HostSample], clocks: Sequence[ClockOffset]) -> pl.DataFrame:
    """One row for each sample of a host."""
    t_ns = np.array([sample.t_ns for sample in samples], np.int64)
    columns: dict[str, list[Any]] = {
        "host": [host] * len(samples),
        "t_s": list(on_run_clock(t_ns, clocks) / 1e9),
        "cpu_s": [sample.cpu_s for sample in samples],
        "cores_busy_s": [sample.cores_busy_s for sample in samples],
        "memory_bytes": [sample.memory_bytes for sample in samples],
        "disk_read_bytes": [sample.disk_read_bytes for sample in samples],
        "disk_write_bytes": [sample.disk_write_bytes for sample in samples],
        "tasks": [[structs.asdict(task) for task in sample.tasks] for sample in samples],
        "load_average": [sample.load_average for sample in samples],
        "memory_free_bytes": [sample.memory_free_bytes for sample in samples],
        "quota_periods": [sample.quota_periods for sample in samples],
        "quota_throttled": [sample.quota_throttled for sample in samples],
    }
    for side in ("external", "loopback"):
        counts: list[LinkCount] = [getattr(sample, side) for sample in samples]
        for count in _COUNTS:
            columns[f"{side}_{count}"] = [getattr(link, count) for link in counts]
    return pl.DataFrame(columns, schema=SAMPLES_SCHEMA)
