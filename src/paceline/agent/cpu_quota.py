"""How often a CPU limit stopped the processes of a cgroup, of version 1 or 2."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class QuotaPeriods(NamedTuple):
    """Periods of a CPU limit so far. A limit of 0.5 cores is a quota of 5 ms in every period of 10 ms."""

    all: int
    """Periods in which some process of the cgroup was ready to run."""
    throttled: int
    """Of these, the periods in which the quota was used up before the end."""


class CpuQuota:
    """The counters of the cgroup that limits the CPU time of a process."""

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def of_process(cls, pid: int, proc: Path = Path("/proc")) -> "CpuQuota | None":
        """None if no cgroup counts the CPU periods of this process."""
        try:
            for stat in _stat_files(pid, proc):
                if stat.exists() and _parse(stat.read_bytes()) is not None:
                    return cls(os.open(stat, os.O_RDONLY | os.O_CLOEXEC))
        except (OSError, ValueError):
            return None
        return None

    def read(self) -> QuotaPeriods | None:
        """None once the cgroup was removed."""
        try:
            return _parse(os.pread(self._file, 4096, 0))
        except OSError:
            return None

    def close(self) -> None:
        os.close(self._file)


def _stat_files(pid: int, proc: Path) -> Iterator[Path]:
    """The files that may hold the counters, by the hierarchies that are mounted."""
    lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    for _, controllers, path in (line.split(":", 2) for line in lines):
        for mount_point, mounted, options in _cgroup_mounts(proc):
            if ("cpu" in controllers.split(",") and "cpu" in options) or (not controllers and not options):
                # Inside of a container, a mount may show only a part of the hierarchy.
                inner = path[len(mounted) :] if mounted != "/" and path.startswith(mounted) else path
                yield mount_point / inner.lstrip("/") / "cpu.stat"


def _cgroup_mounts(proc: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """The mount point, the root inside of the hierarchy and the controllers; no controllers are version 2."""
    for line in (proc / "self" / "mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        _, _, _, mounted, mount_point, *_ = fields.split()
        name, _, options = kind.split(" ", 2)
        if name == "cgroup":
            yield Path(mount_point), mounted, options.split(",")
        elif name == "cgroup2":
            yield Path(mount_point), mounted, []


def _parse(text: bytes) -> QuotaPeriods | None:
    """None if the file has no counters of periods, as that of a version 2 cgroup without the cpu controller."""
    values = dict(line.split(maxsplit=1) for line in text.splitlines() if b" " in line)
    if b"nr_periods" not in values or b"nr_throttled" not in values:
        return None
    return QuotaPeriods(int(values[b"nr_periods"]), int(values[b"nr_throttled"]))
