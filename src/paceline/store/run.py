"""Reads a stored run: its header, events, tables and result."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import filelock
import msgspec
import polars as pl

from paceline.errors import StoreError
from paceline.messages import DECODE_ERRORS
from paceline.recording import folded_stacks
from paceline.store import result as results
from paceline.store.checksums import verify_checksums
from paceline.store.events import Event, StoredEvent, parse_event, read_lines
from paceline.store.header import EVENT as HEADER_EVENT
from paceline.store.header import RunHeader, read_header
from paceline.store.paths import RunPaths, write_whole
from paceline.store.regular_file import read_regular
from paceline.store.result import Result
from paceline.store.tables import SAMPLES_SCHEMA, STEPS_SCHEMA, upgrade_table
from paceline.store.writer import consolidate

_MAX_RESULT_BYTES = 64 * 2**20
"""More than any run writes. A larger file is damaged, and reading it could use up the memory."""
_MAX_STACKS_BYTES = 2**20
_ROWS_AT_ONCE = 200_000
"""Rows of the table of steps that are in memory at once; about 100 bytes each."""
_STEPS_PER_BUCKET = 1_000
_LAST_STEP = 2**32 - 1
AnyEvent = TypeVar("AnyEvent", bound=StoredEvent)


class RunInProgress(StoreError):
    """The controller of the run is still alive."""


class StoredRun:
    """A run on disk. Each file is read when it is first needed; damage is reported as StoreError."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self._verified: set[Path] = set()

    @cached_property
    def header(self) -> RunHeader:
        """The configuration of the run; StoreError if it is missing or cannot be read."""
        return read_header(self.paths.id, self.first(HEADER_EVENT))

    @cached_property
    def events(self) -> list[Event]:
        """The events in order of time, without incomplete or damaged lines."""
        try:
            return [event for line in read_lines(self.paths.events) if (event := parse_event(line))]
        except OSError as error:
            raise self._damaged(self.paths.events, error) from None

    def first(self, name: str) -> Event | None:
        """The first event with this name, with all its fields; None if there is none."""
        return next((event for event in self.events if event["event"] == name), None)

    def all(self, event_type: type[AnyEvent]) -> list[AnyEvent]:
        """The events of a type, in order of time."""
        return [msgspec.convert(event, event_type) for event in self.events if event["event"] == event_type.name]

    def stacks(self, task: str) -> dict[folded_stacks.Stack, int]:
        """The sampled stacks of a rank of a user's script; empty if there are none that can be read."""
        try:
            data = read_regular(self.paths.profile_of(task) / folded_stacks.FILE_NAME, _MAX_STACKS_BYTES)
        except OSError:
            return {}
        return folded_stacks.decode(data)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """The whole table. It may be large: `scan_steps` and `step_parts` need less memory."""
        return self._table(self.paths.steps, STEPS_SCHEMA)

    def scan_steps(self) -> pl.LazyFrame:
        """The table of steps for a query, which `collect` runs without loading the whole table."""
        if not self._has_many_steps:
            return self.steps.lazy()
        with as_store_errors(self.paths.id):
            return upgrade_table(pl.scan_parquet(self._verified_steps), STEPS_SCHEMA)

    def collect(self, query: pl.LazyFrame) -> pl.DataFrame:
        """The result of a query of `scan_steps`."""
        with as_store_errors(self.paths.id):
            return query.collect(engine="streaming" if self._has_many_steps else "in-memory")

    def step_parts(self) -> Iterator[pl.DataFrame]:
        """The table of steps in parts. Each part has all rows, of all tasks, with certain step numbers, in order."""
        if not self._has_many_steps:
            yield self.steps
            return
        for first, last in self._step_ranges():
            yield self.collect(self.scan_steps().filter(pl.col("step").is_between(first, last)))

    def _step_ranges(self) -> Iterator[tuple[int, int]]:
        """First and last step number of parts with at most about `_ROWS_AT_ONCE` rows."""
        bucket = (pl.col("step") // _STEPS_PER_BUCKET).alias("bucket")
        counts = self.collect(self.scan_steps().group_by(bucket).agg(rows=pl.len()).sort("bucket"))
        first, rows = 0, 0
        for number, count in counts.iter_rows():
            if rows and rows + count > _ROWS_AT_ONCE:
                yield first, number * _STEPS_PER_BUCKET - 1
                first, rows = number * _STEPS_PER_BUCKET, 0
            rows += count
        if rows:
            yield first, _LAST_STEP

    @cached_property
    def _has_many_steps(self) -> bool:
        """Whether the table of steps is too large to be loaded at once."""
        path = self.paths.steps
        if not path.exists():
            return False
        with as_store_errors(self.paths.id):
            # The verified file, since the reader trusts the sizes in it.
            rows = pl.scan_parquet(self._verified_steps).select(pl.len()).collect().item()
        return bool(rows > _ROWS_AT_ONCE)

    @cached_property
    def _verified_steps(self) -> Path:
        """The path of the table of steps, after its checksum was verified."""
        self._verify(self.paths.steps)
        return self.paths.steps

    @cached_property
    def samples(self) -> pl.DataFrame:
        return self._table(self.paths.samples, SAMPLES_SCHEMA)

    def _table(self, path: Path, schema: dict[str, Any]) -> pl.DataFrame:
        if not path.exists():
            return pl.DataFrame(schema=schema)
        self._verify(path)
        try:
            with as_store_errors(self.paths.id):
                return upgrade_table(pl.read_parquet(path), schema)
        except OSError as error:
            raise self._damaged(path, error) from None

    def _verify(self, path: Path) -> None:
        """Raise StoreError if a table is damaged. Each table is verified once: that reads the whole file."""
        if path in self._verified:
            return
        try:
            verify_checksums(self.paths.id, path, self.events)
        except OSError as error:
            raise self._damaged(path, error) from None
        self._verified.add(path)

    @property
    def result(self) -> Result | None:
        """The result that was written at the end of the run; None if there is none."""
        try:
            return results.decode(read_regular(self.paths.result, _MAX_RESULT_BYTES), self.paths.id)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(self.paths.result, error) from None
        except DECODE_ERRORS as error:
            raise StoreError(
                f"run {self.paths.id} is damaged: {self.paths.result.name}: {error}; delete {self.paths.result}, "
                "and it will be computed again"
            ) from None

    def _damaged(self, path: Path, error: OSError) -> StoreError:
        return StoreError(
            f"run {self.paths.id} is damaged: cannot read {path.name}: {error.strerror or error}; restore {path} or "
            "delete the run"
        )

    def write_result(self, result: Result) -> None:
        write_whole(self.paths.result, results.encode(result))


@contextmanager
def as_store_errors(run: str) -> Iterator[None]:
    """Report errors while reading the files of a damaged run as StoreError, so that other runs can still be shown.

    Checksums and typed events detect most damage, but a flipped bit can still make a number absurd. polars panics on
    some damaged tables, and its PanicException is not a subclass of Exception.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"run {run} is damaged: {type(error).__name__}: {error}") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise StoreError(f"run {run} is damaged: {error}") from None


@contextmanager
def recovering(paths: RunPaths) -> Iterator[None]:
    """Hold the lock of a run whose controller was killed, after its tables are written and its spool is removed.

    StoreError if the controller is still alive or the files cannot be written.
    """
    lock = filelock.FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise RunInProgress(f"run {paths.id} is still in progress: try again when it has ended") from None
    except OSError as error:
        raise StoreError(f"run {paths.id} was interrupted and its tables cannot be written: {error.strerror}") from None
    try:
        with as_store_errors(paths.id):
            consolidate(paths)
        yield
    except OSError as error:
        raise StoreError(f"run {paths.id} was interrupted and its tables cannot be written: {error.strerror}") from None
    finally:
        lock.release()
        paths.lock.unlink(missing_ok=True)
