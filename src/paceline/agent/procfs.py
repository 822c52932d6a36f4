"""Counters of a Linux host, read from /proc through files that stay open: a fraction of psutil's cost."""

import os
from functools import partial

from paceline.agent.counters import Deferred, Links, ProcessCount
from paceline.agent.runwait import RunWait
from paceline.agent.threads import FileBudget, ThreadFiles, try_open
from paceline.messages import LinkCount

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CHUNK = 65536
_LONGEST_LINE = 1024


class ProcfsHost:
    """Counters of the machine's cores and of this process's network namespace."""

    def __init__(self) -> None:
        self._stat = _open("/proc/stat")
        self._dev = _open("/proc/self/net/dev")
        self._allowance = FileBudget.of_this_process()

    def cores_busy_s(self) -> Deferred[list[float]]:
        return partial(_cores_busy_s, _read_all(self._stat))

    def links(self) -> Deferred[Links]:
        return partial(_links, _read_all(self._dev))

    def process(self, pid: int) -> "ProcfsProcess | None":
        try:
            return ProcfsProcess(pid, self._allowance)
        except OSError:
            return None


class ProcfsProcess:
    """Counters of one process; the open files stay with it even if its number is used again."""

    def __init__(self, pid: int, allowance: FileBudget) -> None:
        self.pid = pid
        self._stat = _open(f"/proc/{pid}/stat")
        # Of all that tell it, the one that newer kernels count exactly.
        self._statm = try_open(f"/proc/{pid}/statm")
        self._io = try_open(f"/proc/{pid}/io")  # not every kernel counts it, nor tells everyone
        self._threads = ThreadFiles(pid, allowance)
        self._run_wait = RunWait(self._threads)

    def read(self) -> Deferred[ProcessCount] | None:
        try:
            stat = os.pread(self._stat, 4096, 0)
        except OSError:
            return None
        return partial(_process_count, stat, _try_read(self._statm), _try_read(self._io))

    def run_wait_s(self) -> float | None:
        return self._run_wait.read()

    def children(self) -> list[int]:
        found = _started_by(self._threads)
        for child in found:  # Grows meanwhile.
            threads = ThreadFiles(child, FileBudget(0))
            found += _started_by(threads)
            threads.close()
        return found

    def close(self) -> None:
        for file in (self._stat, self._statm, self._io):
            if file is not None:
                os.close(file)
        self._threads.close()


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _try_read(file: int | None) -> bytes:
    try:
        return os.pread(file, 4096, 0) if file is not None else b""
    except OSError:
        return b""


def _read_all(file: int) -> bytes:
    # The kernel hands out a table of many lines a page at a time. What ends well before that is all: to ask for more
    # would have it all made once more.
    text = last = os.pread(file, _CHUNK, 0)
    while len(last) > _PAGE_BYTES - _LONGEST_LINE:
        last = os.pread(file, _CHUNK, len(text))
        text += last
    return text


def _cores_busy_s(stat: bytes) -> list[float]:
    # The first line is the sum of all cores; theirs follow, and nothing after them matters.
    return [_busy_ticks(line) * _TICK_S for line in stat.split(b"\ncpu")[1:]]


def _links(dev: bytes) -> Links:
    external, loopback = [0, 0, 0, 0], [0, 0, 0, 0]
    for line in dev.splitlines()[2:]:
        name, _, counts = line.partition(b":")
        fields = counts.split()
        total = loopback if name.lstrip().startswith(b"lo") else external
        for position, field in enumerate((0, 8, 1, 9)):
            total[position] += int(fields[field])
    return Links(LinkCount(*external), LinkCount(*loopback))


def _process_count(stat: bytes, statm: bytes, io: bytes) -> ProcessCount:
    # The name before ')' may hold anything; fields are numbered from the state, as in proc(5) less 3.
    fields = stat.rpartition(b")")[2].split()
    ticks = int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
    rss_bytes = int(statm.split(None, 2)[1]) * _PAGE_BYTES if statm else 0
    disk = (_after(b"\nread_bytes: ", io), _after(b"\nwrite_bytes: ", io)) if io else (0, 0)
    return ProcessCount(ticks * _TICK_S, rss_bytes, int(fields[17]), *disk)


def _busy_ticks(line: bytes) -> int:
    # user nice system (idle iowait) irq softirq steal; guest time is in user already.
    _, user, nice, system, _, _, irq, softirq, steal = line.split(None, 9)[:9]
    return int(user) + int(nice) + int(system) + int(irq) + int(softirq) + int(steal)


def _after(label: bytes, text: bytes) -> int:
    return int(text.partition(label)[2].partition(b"\n")[0])


def _started_by(threads: ThreadFiles) -> list[int]:
    """Every thread lists only the children it started itself."""
    return [int(child) for children in threads.tell("children").values() for child in children.split()]
