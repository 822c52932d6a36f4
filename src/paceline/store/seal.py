"""Checksums of a run's tables, in its diary: a damaged one is told before anything tries to read it.

What reads parquet trusts it: some damage makes it ask for all memory there is, and the process ends without an error.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import StoreError
from paceline.store.events import Event, well_formed
from paceline.store.paths import RunPaths, append_whole

EVENT = "tables"


def seal(paths: RunPaths) -> None:
    """The tables are as they are to stay."""
    sums = {path.name: _checksum(path) for path in (paths.steps, paths.samples)}
    with suppress(OSError):
        add_later(paths, EVENT, sha256=sums)


def add_later(paths: RunPaths, name: str, **fields: Any) -> None:
    """A line in the diary of a run that is over."""
    with paths.events.open("a+b", buffering=0) as file:
        file.seek(0)
        lines = file.readall().split(b"\n")
        t_s = next((event["t_s"] for line in reversed(lines) if (event := well_formed(line))), 0.0)
        after_torn = b"\n" if lines[-1] else b""
        append_whole(file, after_torn + msgspec.json.encode({"t_s": t_s, "event": name, **fields}) + b"\n")


def check(path: Path, events: Sequence[Event]) -> None:
    """StoreError if a table is not what was written; of runs without checksums nothing is known."""
    sealed = next((event for event in reversed(events) if event["event"] == EVENT), None)
    if sealed and sealed["sha256"].get(path.name) != _checksum(path):
        raise StoreError(f"{path} is damaged: it is not what was written")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
