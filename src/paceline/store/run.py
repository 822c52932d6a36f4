"""A run as it is on disk: what was asked, what happened, what was measured."""

import shutil
from functools import cached_property
from typing import Any

import filelock
import msgspec
import polars as pl

from paceline.errors import StoreError
from paceline.store import result as results
from paceline.store.paths import RunPaths, write_whole
from paceline.store.result import Result
from paceline.store.tables import SAMPLES_SCHEMA, STEPS_SCHEMA
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
        return pl.read_parquet(self.paths.steps) if self.paths.steps.exists() else pl.DataFrame(schema=STEPS_SCHEMA)

    @cached_property
    def samples(self) -> pl.DataFrame:
        path = self.paths.samples
        return pl.read_parquet(path) if path.exists() else pl.DataFrame(schema=SAMPLES_SCHEMA)

    @property
    def result(self) -> Result | None:
        """As it was written at the end of the run; None if it never was."""
        try:
            return results.decode(self.paths.result.read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise StoreError(f"{self.paths.result} is damaged: {error}") from None

    def write_result(self, result: Result) -> None:
        write_whole(self.paths.result, results.encode(result))


def is_live(paths: RunPaths) -> bool:
    """Whether some controller still works on this run."""
    if not paths.lock.exists():
        return False
    lock = filelock.FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return True
    lock.release()
    return False


def set_right(paths: RunPaths) -> None:
    """What a killed controller left undone: tables made, scratch space removed."""
    consolidate(paths)
    shutil.rmtree(paths.spool, ignore_errors=True)
    paths.lock.unlink(missing_ok=True)
