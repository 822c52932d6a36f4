"""Counters of a Linux host, read from /proc through files that stay open, at a fraction of the cost of psutil."""

import os
from collections.abc import Iterator
from functools import partial

from paceline.agent.counters import Deferred, InterfaceTotals, LinkCounts, MachineState, ProcessCount
from paceline.agent.cpu_quota import CpuQuota, QuotaPeriods
from paceline.agent.runwait import RunWait
from paceline.agent.threads import FileBudget, ThreadFiles, try_open

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_READ_BYTES = 65536
_MAX_LINE_BYTES = 1024
"""More than the longest line of a table that the kernel returns page by page, such as /proc/net/dev."""


class ProcfsHost:
    """Counters of the machine's cores and of this process's network namespace."""

    def __init__(self) -> None:
        self._stat = _open("/proc/stat")
        self._dev, self._totals = _open("/proc/self/net/dev"), InterfaceTotals()
        self._loadavg, self._meminfo = try_open("/proc/loadavg"), try_open("/proc/meminfo")
        self._budget = FileBudget.of_this_process()

    def cores_busy_s(self) -> Deferred[list[float]]:
        return partial(_cores_busy_s, _read_all(self._stat))

    def links(self) -> Deferred[LinkCounts]:
        text = _read_all(self._dev)
        return lambda: self._totals.update(_interfaces(text))

    def machine(self) -> MachineState:
        load, memory = _try_read(self._loadavg), _try_read(self._meminfo)
        label = b"\nMemAvailable:"
        free = int(memory.partition(label)[2].split(None, 1)[0]) * 1024 if label in memory else None
        return MachineState(float(load.split(None, 1)[0]) if load else None, free)

    def process(self, pid: int) -> "ProcfsProcess | None":
        try:
            return ProcfsProcess(pid, self._budget)
        except OSError:
            return None


class ProcfsProcess:
    """Counters of one process; the open files stay bound to it even if its PID is reused."""

    def __init__(self, pid: int, budget: FileBudget) -> None:
        self.pid = pid
        self._stat = _open(f"/proc/{pid}/stat")
        # Of all files that contain the resident memory, this is the one that newer kernels count exactly.
        self._statm = try_open(f"/proc/{pid}/statm")
        # None if the kernel does not count I/O, or does not let this user read the counters.
        self._io = try_open(f"/proc/{pid}/io")
        self._threads = ThreadFiles(pid, budget)
        self._run_wait = RunWait(self._threads)
        self._quota: CpuQuota | None = None

    def read(self) -> Deferred[ProcessCount] | None:
        try:
            stat = os.pread(self._stat, 4096, 0)
        except OSError:
            return None
        return partial(_process_count, stat, _try_read(self._statm), _try_read(self._io))

    def run_wait_s(self) -> float | None:
        return self._run_wait.read()

    def quota_periods(self) -> QuotaPeriods | None:
        periods = self._quota.read() if self._quota else None
        # A task may join the cgroup with its limit only after it was started.
        if periods is None or not periods.all:
            self._close_quota()
            self._quota = CpuQuota.of_process(self.pid)
            periods = self._quota.read() if self._quota else None
        return periods

    def children(self) -> list[int]:
        descendants = _direct_children(self._threads)
        for child in descendants:  # The list grows while it is iterated over.
            threads = ThreadFiles(child, FileBudget(0))
            descendants += _direct_children(threads)
            threads.close()
        return descendants

    def close(self) -> None:
        for file in (self._stat, self._statm, self._io):
            if file is not None:
                os.close(file)
        self._threads.close()
        self._close_quota()

    def _close_quota(self) -> None:
        if self._quota:
            self._quota.close()
            self._quota = None


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _try_read(file: int | None) -> bytes:
    try:
        return os.pread(file, 4096, 0) if file is not None else b""
    except OSError:
        return b""


def _read_all(file: int) -> bytes:
    # The kernel returns a long table about one page per read, in whole lines. A read well below one page is therefore
    # the last one; reading once more only to see the end of the file would make the kernel build the table again.
    text = last = os.pread(file, _READ_BYTES, 0)
    while len(last) > _PAGE_BYTES - _MAX_LINE_BYTES:
        last = os.pread(file, _READ_BYTES, len(text))
        text += last
    return text


def _cores_busy_s(stat: bytes) -> list[float]:
    # The first line is the sum of all cores and is skipped; one line per core follows; later lines do not matter.
    return [_busy_ticks(line) * _TICK_S for line in stat.split(b"\ncpu")[1:]]


def _interfaces(dev: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    for line in dev.splitlines()[2:]:
        name, _, counts = line.partition(b":")
        fields = counts.split()
        # rx bytes, tx bytes, rx packets, tx packets: the order of LinkCount.
        yield name.strip().decode(), tuple(int(fields[field]) for field in (0, 8, 1, 9))


def _process_count(stat: bytes, statm: bytes, io: bytes) -> ProcessCount:
    # The command name in parentheses may contain spaces and ')', so split after the last ')'. Index 0 is then the
    # process state, field 3 of proc(5): 11 to 14 are utime, stime, cutime, cstime and 17 is num_threads.
    fields = stat.rpartition(b")")[2].split()
    ticks = int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
    rss_bytes = int(statm.split(None, 2)[1]) * _PAGE_BYTES if statm else 0
    disk = (_number_after(b"\nread_bytes: ", io), _number_after(b"\nwrite_bytes: ", io)) if io else (0, 0)
    return ProcessCount(ticks * _TICK_S, rss_bytes, int(fields[17]), *disk)


def _busy_ticks(line: bytes) -> int:
    # Columns: user nice system (idle iowait, not counted) irq softirq steal. Guest time is part of user time already.
    _, user, nice, system, _, _, irq, softirq, steal = line.split(None, 9)[:9]
    return int(user) + int(nice) + int(system) + int(irq) + int(softirq) + int(steal)


def _number_after(label: bytes, text: bytes) -> int:
    return int(text.partition(label)[2].partition(b"\n")[0])


def _direct_children(threads: ThreadFiles) -> list[int]:
    """PIDs of the children that any thread of the process has started."""
    return [int(child) for children in threads.read("children").values() for child in children.split()]
