"""Which names on this machine belong to a run: a file that says so, locked for as long as the run lives.

Keeper and controller each hold a shared lock, so a claim is dead only once both are gone.
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

DIRECTORY = Path("/run/paceline")  # `ip netns` needs /run as well, so there is no second place to try


class RunLock(NamedTuple):
    """What a claim file says."""

    path: Path
    alive: bool
    keeper: int | None
    namespaces: list[str]
    groups: list[str]


class LockHandle:
    """A shared lock on a claim file, kept until this process ends or lets go."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        fcntl.flock(descriptor, fcntl.LOCK_SH)

    def close(self) -> None:
        os.close(self._descriptor)

    def remove(self) -> None:
        """Delete the file, unless its name already is another run's."""
        with _quiet_directory(), suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                self._path.unlink()


def make(token: str, namespaces: Sequence[str], groups: Sequence[str]) -> LockHandle:
    """Claim the names for this process; FileExistsError if the token is taken."""
    DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    path = _path(token)
    with _quiet_directory():
        hold = LockHandle(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        path.write_text(json.dumps({"keeper": os.getpid(), "namespaces": namespaces, "groups": groups}))
    return hold


def join(token: str) -> LockHandle:
    """Share the claim that another process of this run made."""
    return LockHandle(_path(token), os.open(_path(token), os.O_RDONLY))


def run_locks() -> list[RunLock]:
    """Every claim on this machine; those not `alive` were left behind."""
    if not DIRECTORY.exists():
        return []
    with _quiet_directory():
        return [_read(path) for path in sorted(DIRECTORY.glob("*.lock"))]


def discard(path: Path) -> bool:
    """Delete a dead claim; False if it is alive or gone."""
    with _quiet_directory():
        if not path.exists() or _read(path).alive:
            return False
        path.unlink()
        return True


def _path(token: str) -> Path:
    return DIRECTORY / f"{token}.lock"


def _read(path: Path) -> RunLock:
    try:
        said = json.loads(path.read_text())
    except ValueError:  # its maker died before it had written a word, so nothing else was made either
        said = {"keeper": None, "namespaces": [], "groups": []}
    return RunLock(path, _is_held(path), said["keeper"], said["namespaces"], said["groups"])


def _is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _quiet_directory() -> Iterator[None]:
    """No claim appears or vanishes meanwhile, so none is ever seen made but not yet locked."""
    descriptor = os.open(DIRECTORY, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
