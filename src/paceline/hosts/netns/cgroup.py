"""CPU limits by cgroup, version 1 or 2: one cgroup per host, which the tasks of the host join."""

import errno
import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MIN_CPUS = 0.001
"""The smallest limit: the kernel's shortest quota (1 ms) in its longest period (1 s)."""
_PERIOD_US = 10_000  # Short, so that a throttled host runs slowly instead of in bursts.
_MIN_QUOTA_US = 1_000


class Hierarchy(NamedTuple):
    """The cgroup hierarchy of the CPU controller."""

    root: Path
    version: int

    def obstacle(self) -> str | None:
        """Why no cgroup can be created here; None if it can."""
        if not os.access(self.root, os.W_OK):
            return f"{self.root} is not writable"
        if self.version == 2 and not self._delegates_cpu() and self._has_processes():
            # The kernel enables no controllers below a cgroup with processes, unless it is the root cgroup.
            return f"{self.root} holds processes itself, so groups in it get no cpu controller"
        return None

    def make(self, name: str, cpus: float | None) -> Path:
        """Create a cgroup whose processes share `cpus` cores; None: no limit."""
        group = self.root / name
        if self.version == 2 and not self._delegates_cpu():
            (self.root / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        self.set_cpus(group, cpus)
        return group

    def set_cpus(self, group: Path, cpus: float | None) -> None:
        """Change the limit of a cgroup; None: no limit."""
        quota_us, period_us = cpu_limit(cpus) if cpus is not None else (None, _PERIOD_US)
        if self.version == 2:
            (group / "cpu.max").write_text(f"{quota_us or 'max'} {period_us}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us or -1))

    def _delegates_cpu(self) -> bool:
        return "cpu" in (self.root / "cgroup.subtree_control").read_text().split()

    def _has_processes(self) -> bool:
        return (self.root / "cgroup.type").exists() and bool(processes(self.root))


def cpu_limit(cpus: float) -> tuple[int, int]:
    """Quota and period in microseconds. The period is longer only if the quota would be too short otherwise."""
    period_us = max(_PERIOD_US, min(math.ceil(_MIN_QUOTA_US / cpus), 1_000_000))
    return max(round(cpus * period_us), _MIN_QUOTA_US), period_us


def cpu_hierarchy() -> Hierarchy | None:
    """The hierarchy of the CPU controller; None if it is not mounted."""
    for root, kind, options in _mounts():
        if kind == "cgroup" and "cpu" in options:
            return Hierarchy(root, 1)
        if kind == "cgroup2" and "cpu" in (root / "cgroup.controllers").read_text().split():
            return Hierarchy(root, 2)
    return None


def root() -> Path:
    """The folder that contains the cgroups of hosts."""
    hierarchy = cpu_hierarchy()
    return hierarchy.root if hierarchy else Path("/sys/fs/cgroup")


def processes(group: Path) -> list[int]:
    """The processes in a cgroup; empty if the cgroup no longer exists."""
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def remove(group: Path, deadline: float) -> None:
    """Remove an empty cgroup. Waits for killed processes, which the kernel may still count for a moment."""
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
    """Thaw the freezer cgroup of a process. Under version 1, a frozen process ignores even SIGKILL."""
    with suppress(OSError):  # The process may have ended meanwhile.
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
