"""Reads what the controller of a run in progress has written so far. Nothing here writes or holds a lock for long."""

from pathlib import Path

import filelock

from paceline.store.events import Event, parse_event
from paceline.store.journal import Entry, next_entry
from paceline.store.paths import RunPaths
from paceline.store.regular_file import open_regular

_MAX_BYTES_AT_ONCE = 64 * 2**20


def is_in_progress(paths: RunPaths) -> bool:
    """Whether the controller of a run is alive, and its result is not written yet."""
    if paths.result.exists() or not paths.lock.exists():
        return False
    lock = filelock.FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


class JournalTail:
    """The entries of a journal that is still being written, each once."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def new_entries(self) -> list[Entry]:
        """The complete entries after those returned before; at most some megabytes of them at once."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._position)
                entries: list[Entry] = []
                while file.tell() - self._position < _MAX_BYTES_AT_ONCE and (entry := next_entry(file)) is not None:
                    entries.append(entry)
                    end = file.tell()
        except FileNotFoundError:  # The run has ended: its journal became tables.
            return []
        if entries:
            self._position = end
        return entries


class EventTail:
    """The events of a run that is still being made, each once."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def new_events(self) -> list[Event]:
        try:
            with open_regular(self._path) as file:
                file.seek(self._position)
                data = file.read(_MAX_BYTES_AT_ONCE)
        except FileNotFoundError:
            return []
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        return [event for line in complete.split(b"\n") if line and (event := parse_event(line))]
