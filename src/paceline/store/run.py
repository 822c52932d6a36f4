"""A run as it is on disk: what was asked, what happened, what was measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import filelock
import msgspec
import polars as pl

from paceline.errors import StoreError
from paceline.store import result as results
from paceline.store.paths import RunPaths, write_whole
from paceline.store.result import Result
from paceline.store.tables import SAMPLES_SCHEMA, STEPS_SCHEMA, upgraded
from paceline.store.writer import consolidate

Event = dict[str, Any]


class StoredRun:
    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths

    @cached_property
    def events(self) -> list[Event]:
        """In order of time; a torn last line is left out."""
        try:
            lines = self.paths.events.read_bytes().split(b"\n")
        except OSError as error:
            raise StoreError(f"run {self.paths.id} has no readable events: {error.strerror}") from None
        found = []
        for line in lines:
            try:
                found.append(msgspec.json.decode(line, type=Event))
            except msgspec.MsgspecError:
                continue
        return found

    def first(self, name: str) -> Event | None:
        return next((event for event in self.events if event["event"] == name), None)

    def all(self, name: str) -> list[Event]:
        return [event for event in self.events if event["event"] == name]

    @cached_property
    def steps(self) -> pl.DataFrame:
        return self._table(self.paths.steps, STEPS_SCHEMA)

    @cached_property
    def samples(self) -> pl.DataFrame:
        return self._table(self.paths.samples, SAMPLES_SCHEMA)

    def _table(self, path: Path, schema: dict[str, Any]) -> pl.DataFrame:
        try:
            return upgraded(pl.read_parquet(path), schema) if path.exists() else pl.DataFrame(schema=schema)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise StoreError(f"{path} is damaged: {error}") from None

    @property
    def result(self) -> Result | None:
        """As it was written at the end of the run; None if it never was."""
        try:
            return results.decode(self.paths.result.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreError(f"{self.paths.result} is damaged: {error}") from None

    def write_result(self, result: Result) -> None:
        write_whole(self.paths.result, results.encode(result))


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
        consolidate(paths)
        yield
    except OSError as error:
        raise StoreError(f"run {paths.id} was cut short and cannot be set right: {error.strerror}") from None
    finally:
        lock.release()
        paths.lock.unlink(missing_ok=True)
