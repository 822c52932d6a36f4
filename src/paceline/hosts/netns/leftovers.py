"""What killed runs left on this machine, and how to remove it without touching a live run."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.hosts.netns import cgroup, iproute, run_lock
from paceline.hosts.netns.teardown import processes, teardown


class Leftover(NamedTuple):
    """A thing no live run claims."""

    kind: str
    """'namespace', 'cgroup' or 'claim'."""
    name: str
    pids: tuple[int, ...] = ()
    """The processes still in it."""

    def __str__(self) -> str:
        running = f" with {len(self.pids)} processes" if self.pids else ""
        return f"{self.kind} {self.name}{running}"


def find() -> list[Leftover]:
    """Everything left behind; none for other users than root, who cannot tell it from a live run's."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return []
    # Things before claims: a run claims its names before it makes anything, so what is seen is claimed.
    namespaces = [name for name in _names_in(Path(iproute.NAMESPACES)) if name.startswith("pl-")]
    groups = [name for name in _names_in(cgroup.root()) if name.startswith("paceline-")]
    claims = run_lock.run_locks()
    alive = _names_of([made for made in claims if made.alive])
    return [
        *(Leftover("namespace", name, _pids([name], [])) for name in namespaces if name not in alive),
        *(Leftover("cgroup", name, _pids([], [name])) for name in groups if name not in alive),
        *(Leftover("claim", made.path.name) for made in claims if not made.alive),
    ]


def clean(leftovers: Sequence[Leftover]) -> list[str]:
    """Remove them, with the processes in them; a line for each thing removed, or that would not go."""
    alive = _names_of([made for made in run_lock.run_locks() if made.alive])  # a run may have begun since
    dead = [left for left in leftovers if left.name not in alive]
    swept = teardown(
        [left.name for left in dead if left.kind == "namespace"],
        [cgroup.root() / left.name for left in dead if left.kind == "cgroup"],
    )
    claims = [left.name for left in dead if left.kind == "claim"]
    discarded = [f"removed claim {name}" for name in claims if run_lock.discard(run_lock.DIRECTORY / name)]
    return [*swept.done, *swept.failed, *discarded]


def clean_after(keeper: int) -> list[str]:
    """Remove what is left of one keeper that did not end well."""
    dead = [made for made in run_lock.run_locks() if made.keeper == keeper and not made.alive]
    names = _names_of(dead) | {made.path.name for made in dead}
    return clean([left for left in find() if left.name in names])


def _names_of(claims: Sequence[run_lock.RunLock]) -> set[str]:
    return {name for made in claims for name in (*made.namespaces, *made.groups)}


def _pids(namespaces: Sequence[str], groups: Sequence[str]) -> tuple[int, ...]:
    return tuple(sorted(processes(namespaces, [cgroup.root() / name for name in groups])))


def _names_in(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.is_dir() else []
