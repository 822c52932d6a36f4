"""A run as it is on disk: what was asked, what happened, what was measured."""

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

Kind = TypeVar("Kind", bound=StoredEvent)


class StoredRun:
    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths

    @cached_property
    def header(self) -> RunHeader:
        """What the run is; StoreError if there is no header that this program can read."""
        return read_header(self.paths.id, self.first(HEADER_EVENT))

    @cached_property
    def events(self) -> list[Event]:
        """In order of time; a torn last line is left out, as is any other that cannot be what was written."""
        try:
            lines = self.paths.events.read_bytes().split(b"\n")
        except OSError as error:
            raise StoreError(f"run {self.paths.id} has no readable events: {error.strerror}") from None
        return [event for line in lines if (event := parse_event(line))]

    def first(self, name: str) -> Event | None:
        """The first event of that name with all its fields."""
        return next((event for event in self.events if event["event"] == name), None)

    def all(self, kind: type[Kind]) -> list[Kind]:
        """The events of a kind, in order of time."""
        return [msgspec.convert(event, kind) for event in self.events if event["event"] == kind.name]

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
        """As it was written at the end of the run; None if it never was."""
        try:
            return results.decode(self.paths.result.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, *DECODE_ERRORS) as error:
            raise StoreError(f"{self.paths.result} is damaged: {error}") from None

    def write_result(self, result: Result) -> None:
        write_whole(self.paths.result, results.encode(result))


@contextmanager
def as_store_errors(what: Path) -> Iterator[None]:
    """What damage leads to is told as damage: one bad run must not keep others from being shown.

    Checksums and forms let little through, but a flipped bit may make a number absurd, and polars panics, which is
    no Exception, at some tables that are none.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"{what} is damaged ({type(error).__name__}: {error})") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise StoreError(f"{what} is damaged ({error})") from None


@contextmanager
def recovering(paths: RunPaths) -> Iterator[None]:
    """Alone with a run whose controller is gone: tables made, scratch space removed; StoreError if it is alive."""
    lock = filelock.FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise StoreError(f"run {paths.id} is still under way: wait for it, or look again later") from None
    except OSError as error:
        raise StoreError(f"run {paths.id} was cut short and cannot be set right: {error.strerror}") from None
    try:
        with as_store_errors(paths.journal):
            consolidate(paths)
        yield
    except OSError as error:
        raise StoreError(f"run {paths.id} was cut short and cannot be set right: {error.strerror}") from None
    finally:
        lock.release()
        paths.lock.unlink(missing_ok=True)
