"""CPU shares by cgroup, version 1 or 2: one group per host, which the host's tasks join."""

import errno
import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MIN_CPUS = 0.001
"""The kernel's shortest quota (1 ms) in its longest period (1 s)."""
_PERIOD_US = 10_000  # short, so that a throttled host is slow and not fitful
_MIN_QUOTA_US = 1_000


class Hierarchy(NamedTuple):
    """Where groups that limit CPU are made."""

    root: Path
    version: int

    def obstacle(self) -> str | None:
        """Why no group can be made here, if so."""
        if not os.access(self.root, os.W_OK):
            return f"{self.root} is not writable"
        if self.version == 2 and not self._hands_down_cpu() and self._is_occupied():
            # The kernel refuses controllers below a group that has processes, unless it is the true root.
            return f"{self.root} holds processes itself, so groups in it get no cpu controller"
        return None

    def make(self, name: str, cpus: float | None) -> Path:
        """A group whose processes get so many cores together; None is all there are."""
        group = self.root / name
        if self.version == 2 and not self._hands_down_cpu():
            (self.root / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        self.hold(group, cpus)
        return group

    def hold(self, group: Path, cpus: float | None) -> None:
        """Give the processes of a group so many cores from now on."""
        quota_us, period_us = cpu_limit(cpus) if cpus is not None else (None, _PERIOD_US)
        if self.version == 2:
            (group / "cpu.max").write_text(f"{quota_us or 'max'} {period_us}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us or -1))

    def _hands_down_cpu(self) -> bool:
        return "cpu" in (self.root / "cgroup.subtree_control").read_text().split()

    def _is_occupied(self) -> bool:
        return (self.root / "cgroup.type").exists() and bool(processes(self.root))


def cpu_limit(cpus: float) -> tuple[int, int]:
    """Quota and period in microseconds; the period grows only where the quota would be too short."""
    period_us = max(_PERIOD_US, min(math.ceil(_MIN_QUOTA_US / cpus), 1_000_000))
    return max(round(cpus * period_us), _MIN_QUOTA_US), period_us


def cpu_hierarchy() -> Hierarchy | None:
    """The hierarchy that controls CPU on this machine, if it is mounted."""
    for root, kind, options in _mounts():
        if kind == "cgroup" and "cpu" in options:
            return Hierarchy(root, 1)
        if kind == "cgroup2" and "cpu" in (root / "cgroup.controllers").read_text().split():
            return Hierarchy(root, 2)
    return None


def root() -> Path:
    """Where the groups of hosts are, or would be."""
    hierarchy = cpu_hierarchy()
    return hierarchy.root if hierarchy else Path("/sys/fs/cgroup")


def processes(group: Path) -> list[int]:
    """The processes in a group; none if the group is gone."""
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def remove(group: Path, deadline: float) -> None:
    """Remove a group without processes; those just killed may hold it until they are fully gone."""
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def thaw(pid: int) -> None:
    """Let a process of a frozen group run again: under version 1 it cannot even die before."""
    with suppress(OSError):  # it may be gone by now, which is as good
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        paths = [path for _, names, path in (line.split(":", 2) for line in lines) if names == "freezer"]
        roots = [root for root, kind, options in _mounts() if kind == "cgroup" and "freezer" in options]
        for state in [root / path.lstrip("/") / "freezer.state" for root in roots for path in paths]:
            if state.exists() and state.read_text().strip() != "THAWED":
                state.write_text("THAWED")


def _mounts() -> Iterator[tuple[Path, str, list[str]]]:
    try:
        text = Path("/proc/self/mounts").read_text()
    except OSError:
        return
    for line in text.splitlines():
        _, root, kind, options, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(root), kind, options.split(",")
