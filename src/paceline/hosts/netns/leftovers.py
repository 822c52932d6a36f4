"""Finds and removes what killed runs left on this machine, without touching a live run."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.hosts.netns import cgroup, iproute, run_lock
from paceline.hosts.netns.teardown import processes, teardown


class Leftover(NamedTuple):
    """A namespace, cgroup or lock file that belongs to no live run."""

    kind: str
    """'namespace', 'cgroup' or 'lock'."""
    name: str
    pids: tuple[int, ...] = ()
    """The processes still in it."""

    def __str__(self) -> str:
        running = f" with {len(self.pids)} processes" if self.pids else ""
        return f"{self.kind} {self.name}{running}"


def find() -> list[Leftover]:
    """All leftovers. Empty for users other than root, who cannot see which runs are live."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return []
    # Listed before the locks are read: a run locks its names before it creates anything, so nothing is missed.
    namespaces, groups = _namespaces(), _groups()
    locks = run_lock.run_locks()
    alive = _names_of([lock for lock in locks if lock.alive])
    # Listed again afterwards: a run that ended meanwhile has removed its own before it gave up its lock.
    return [
        *(Leftover("namespace", name, _pids([name], [])) for name in sorted(namespaces & _namespaces() - alive)),
        *(Leftover("cgroup", name, _pids([], [name])) for name in sorted(groups & _groups() - alive)),
        *(Leftover("lock", lock.path.name) for lock in locks if not lock.alive),
    ]


def clean(leftovers: Sequence[Leftover]) -> list[str]:
    """Remove leftovers and the processes in them; returns one line for each, whether or not it could be removed."""
    # Read again, because a run may have started since the leftovers were listed.
    alive = _names_of([lock for lock in run_lock.run_locks() if lock.alive])
    dead = [left for left in leftovers if left.name not in alive]
    removed = teardown(
        [left.name for left in dead if left.kind == "namespace"],
        [cgroup.root() / left.name for left in dead if left.kind == "cgroup"],
    )
    locks = [left.name for left in dead if left.kind == "lock"]
    discarded = [f"removed lock {name}" for name in locks if run_lock.remove_dead(run_lock.DIRECTORY / name)]
    return [*removed.done, *removed.failed, *discarded]


def clean_after_reaper(pid: int) -> list[str]:
    """Remove the leftovers of one reaper process that failed."""
    dead = [lock for lock in run_lock.run_locks() if lock.reaper == pid and not lock.alive]
    names = _names_of(dead) | {lock.path.name for lock in dead}
    return clean([left for left in find() if left.name in names])


def _names_of(locks: Sequence[run_lock.RunLock]) -> set[str]:
    return {name for lock in locks for name in (*lock.namespaces, *lock.groups)}


def _pids(namespaces: Sequence[str], groups: Sequence[str]) -> tuple[int, ...]:
    return tuple(sorted(processes(namespaces, [cgroup.root() / name for name in groups])))


def _namespaces() -> set[str]:
    return {name for name in _names_in(Path(iproute.NAMESPACES)) if name.startswith("pl-")}


def _groups() -> set[str]:
    return {name for name in _names_in(cgroup.root()) if name.startswith("paceline-")}


def _names_in(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []
