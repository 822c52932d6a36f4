"""Checksums of a run's tables, in its diary: a damaged one is told before anything tries to read it.

What reads parquet trusts it: some damage makes it ask for all memory there is, and the process ends without an error.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from paceline.errors import StoreError
from paceline.store.events import Event, TablesEvent, append_event
from paceline.store.paths import RunPaths

EVENT = TablesEvent.name


def write_checksums(paths: RunPaths) -> None:
    """The tables are as they are to stay."""
    sums = {path.name: _checksum(path) for path in (paths.steps, paths.samples)}
    with suppress(OSError):
        append_event(paths.events, EVENT, sha256=sums)


def verify_checksums(path: Path, events: Sequence[Event]) -> None:
    """StoreError if a table is not what was written; of runs without checksums nothing is known."""
    sealed = next((event for event in reversed(events) if event["event"] == EVENT), None)
    if sealed and sealed["sha256"].get(path.name) != _checksum(path):
        raise StoreError(f"{path} is damaged: it is not what was written")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
