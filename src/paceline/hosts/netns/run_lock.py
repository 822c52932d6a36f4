"""Lock files that record which names on this machine belong to a live run.

Reaper and controller each hold a shared lock on the file of their run, so a run is dead only when both have ended.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl

DIRECTORY = Path("/run/paceline")  # `ip netns` needs /run as well, so no other place is tried.


class RunLock(NamedTuple):
    """The content of a lock file, and whether its run is alive."""

    path: Path
    alive: bool
    reaper: int | None
    namespaces: list[str]
    groups: list[str]


class LockHandle:
    """A shared lock on the lock file of a run, held until `close` or the end of this process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        fcntl.flock(descriptor, fcntl.LOCK_SH)

    def close(self) -> None:
        os.close(self._descriptor)

    def remove(self) -> None:
        """Delete the file, unless another run has already created a new one with the same name."""
        with _locked_directory(), suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                self._path.unlink()


def make(token: str, namespaces: Sequence[str], groups: Sequence[str]) -> LockHandle:
    """Create the lock file of a run; FileExistsError if the token is taken."""
    DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    path = _path(token)
    with _locked_directory():
        hold = LockHandle(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        path.write_text(json.dumps({"reaper": os.getpid(), "namespaces": namespaces, "groups": groups}))
    return hold


def join(token: str) -> LockHandle:
    """Lock the file that another process of this run created."""
    return LockHandle(_path(token), os.open(_path(token), os.O_RDONLY))


def run_locks() -> list[RunLock]:
    """All lock files on this machine; those that are not `alive` are leftovers."""
    if not DIRECTORY.exists():
        return []
    with _locked_directory():
        return [_read(path) for path in sorted(DIRECTORY.glob("*.lock"))]


def remove_dead(path: Path) -> bool:
    """Delete the lock file of a dead run; False if the run is alive or the file is gone."""
    with _locked_directory():
        if not path.exists() or _read(path).alive:
            return False
        path.unlink()
        return True


def _path(token: str) -> Path:
    return DIRECTORY / f"{token}.lock"


def _read(path: Path) -> RunLock:
    try:
        content = json.loads(path.read_text())
    except ValueError:  # Its creator died before it wrote anything, so it created nothing else either.
        content = {"reaper": None, "namespaces": [], "groups": []}
    return RunLock(path, _is_locked(path), content.get("reaper"), content["namespaces"], content["groups"])


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _locked_directory() -> Iterator[None]:
    """Lock the directory, so that no other process sees a lock file that exists but is not locked yet."""
    descriptor = os.open(DIRECTORY, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
