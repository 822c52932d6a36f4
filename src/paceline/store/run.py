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
from paceline.store import result as results
from paceline.store.checksums import verify_checksums
from paceline.store.events import Event, StoredEvent, parse_event
from paceline.store.header import EVENT as HEADER_EVENT
from paceline.store.header import RunHeader, read_header
from paceline.store.paths import RunPaths, write_whole
from paceline.store.result import Result
from paceline.store.tables import SAMPLES_SCHEMA, STEPS_SCHEMA, upgrade_table
from paceline.store.writer import consolidate

AnyEvent = TypeVar("AnyEvent", bound=StoredEvent)


class StoredRun:
    """A run on disk. Each file is read when it is first needed; damage is reported as StoreError."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths

    @cached_property
    def header(self) -> RunHeader:
        """The configuration of the run; StoreError if it is missing or cannot be read."""
        return read_header(self.paths.id, self.first(HEADER_EVENT))

    @cached_property
    def events(self) -> list[Event]:
        """The events in order of time, without incomplete or damaged lines."""
        try:
            lines = self.paths.events.read_bytes().split(b"\n")
        except OSError as error:
            raise StoreError(f"run {self.paths.id} has no readable events: {error.strerror}") from None
        return [event for line in lines if (event := parse_event(line))]

    def first(self, name: str) -> Event | None:
        """The first event with this name, with all its fields; None if there is none."""
        return next((event for event in self.events if event["event"] == name), None)

    def all(self, event_type: type[AnyEvent]) -> list[AnyEvent]:
        """The events of a type, in order of time."""
        return [msgspec.convert(event, event_type) for event in self.events if event["event"] == event_type.name]

    @cached_property
    def steps(self) -> pl.DataFrame:
        return self._table(self.paths.steps, STEPS_SCHEMA)

    @cached_property
    def samples(self) -> pl.DataFrame:
        return self._table(self.paths.samples, SAMPLES_SCHEMA)

    def _table(self, path: Path, schema: dict[str, Any]) -> pl.DataFrame:
        if not path.exists():
            return pl.DataFrame(schema=schema)
        try:
            with as_store_errors(path):
                verify_checksums(path, self.events)
                return upgrade_table(pl.read_parquet(path), schema)
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}") from None

    @property
    def result(self) -> Result | None:
        """The result that was written at the end of the run; None if there is none."""
        try:
            return results.decode(self.paths.result.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, *DECODE_ERRORS) as error:
            raise StoreError(
                f"{self.paths.result} is damaged ({error}): delete it, and it will be computed again"
            ) from None

    def write_result(self, result: Result) -> None:
        write_whole(self.paths.result, results.encode(result))


@contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Report errors while reading a damaged file or run as StoreError, so that other runs can still be shown.

    Checksums and typed events detect most damage, but a flipped bit can still make a number absurd. polars panics on
    some damaged tables, and its PanicException is not a subclass of Exception.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged ({type(error).__name__}: {error})") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise StoreError(f"{path} is damaged ({error})") from None


@contextmanager
def recovering(paths: RunPaths) -> Iterator[None]:
    """Hold the lock of a run whose controller was killed, after its tables are written and its spool is removed.

    StoreError if the controller is still alive or the files cannot be written.
    """
    lock = filelock.FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise StoreError(f"run {paths.id} is still in progress: try again when it has ended") from None
    except OSError as error:
        raise StoreError(f"run {paths.id} was interrupted and its tables cannot be written: {error.strerror}") from None
    try:
        with as_store_errors(paths.journal):
            consolidate(paths)
        yield
    except OSError as error:
        raise StoreError(f"run {paths.id} was interrupted and its tables cannot be written: {error.strerror}") from None
    finally:
        lock.release()
        paths.lock.unlink(missing_ok=True)
