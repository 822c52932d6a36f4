"""Writes and verifies the checksums of a run's tables, so that a damaged table is detected before it is read.

The parquet reader trusts its input: some damage makes it allocate all memory, and the process is killed without an
error message. The checksums are stored in the event `tables` of events.jsonl.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from paceline.errors import StoreError
from paceline.store.events import Event, TablesEvent, append_event
from paceline.store.paths import RunPaths
from paceline.store.regular_file import open_regular

EVENT = TablesEvent.name


def write_checksums(paths: RunPaths) -> None:
    """Record the checksums of both tables; call it after the tables were written for the last time."""
    sums = {path.name: _checksum(path) for path in (paths.steps, paths.samples)}
    # On a full disk the run stays without checksums, which is allowed.
    with suppress(OSError):
        append_event(paths.events, EVENT, sha256=sums)


def verify_checksums(run: str, path: Path, events: Sequence[Event]) -> None:
    """Raise StoreError if a table differs from its last checksum; a run without checksums passes."""
    tables_event = next((event for event in reversed(events) if event["event"] == EVENT), None)
    if tables_event and tables_event["sha256"].get(path.name) != _checksum(path):
        raise StoreError(
            f"run {run} is damaged: the checksum of {path.name} is wrong; restore {path} or delete the run"
        )


def _checksum(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
