"""Reads the counters of a host: its tasks, the cores of the machine, its network links.

Samples contain totals; rates are computed later from the differences.
"""

import sys
import threading
import time
from typing import NamedTuple

from paceline.agent.counters import Deferred, HostCounters, LinkCounts, MachineState, ProcessCount, ProcessCounters
from paceline.agent.cpu_quota import QuotaPeriods
from paceline.messages import HostSample, TaskSample

CHILDREN_EVERY_NS = 2_000_000_000
"""How often to look for new child processes: it is slow, and most tasks have none."""
THREADS_EVERY_NS = 1_000_000_000
"""How often to read how long threads waited for a core: it reads a file for every thread, and frameworks have many."""
MACHINE_EVERY_NS = 1_000_000_000
"""How often to read load average and free memory of the machine: they change slowly."""

_ZERO = ProcessCount(0.0, 0, 0, 0, 0)


class Sampler:
    """Samples one host. Tasks may be added and removed while another thread samples."""

    def __init__(self, counters: HostCounters | None = None) -> None:
        self._counters = counters or _counters_of_this_system()
        self._tasks: dict[str, _Task] = {}
        self._removed = _ZERO
        """The sum of what removed tasks had used."""
        self._machine, self._machine_due_ns = MachineState(None, None), 0
        self._quota: QuotaPeriods | None = None
        self._readings: list[_HostReading] = []
        self._samples: list[HostSample] = []
        self._lock = threading.Lock()

    def add(self, task: str, pid: int) -> None:
        """Count this process and its children as the task; a process that has already ended is ignored."""
        with self._lock:
            self._remove(task)
            process = self._counters.process(pid)
            if process:
                self._tasks[task] = _Task(process)

    def remove(self, task: str) -> None:
        """Stop sampling the task; what it used stays in the total of the host."""
        with self._lock:
            self._remove(task)

    def read_final_run_wait(self, task: str) -> None:
        """Read how long the threads of a task waited for a core; call it before the task exits and its threads end."""
        with self._lock:
            if task in self._tasks:
                self._tasks[task].read_run_wait()

    def read_counters(self) -> None:
        """Read all counters for one more sample. They are parsed later, by `take_samples`."""
        with self._lock:
            t_ns = time.monotonic_ns()
            tasks = {name: task.read(self._counters, t_ns) for name, task in self._tasks.items()}
            if t_ns >= self._machine_due_ns:
                self._machine, self._machine_due_ns = self._counters.machine(), t_ns + MACHINE_EVERY_NS
                self._quota = next((periods for task in self._tasks.values() if (periods := task.quota())), self._quota)
            counters = self._counters
            self._readings.append(
                _HostReading(t_ns, tasks, counters.links(), counters.cores_busy_s(), self._machine, self._quota)
            )

    def take_samples(self) -> list[HostSample]:
        """One sample for each `read_counters` since the last call."""
        with self._lock:
            self._parse_readings()
            samples, self._samples = self._samples, []
        return samples

    def _parse_readings(self) -> None:
        self._samples += [self._sample(reading) for reading in self._readings]
        self._readings = []

    def _sample(self, reading: "_HostReading") -> HostSample:
        counts = {name: self._tasks[name].count(task.processes) for name, task in reading.tasks.items()}
        total, links = _sum([self._removed, *counts.values()]), reading.links()
        return HostSample(
            t_ns=reading.t_ns,
            cpu_s=total.cpu_s,
            cores_busy_s=reading.cores_busy_s(),
            memory_bytes=total.rss_bytes,
            external=links.external,
            loopback=links.loopback,
            disk_read_bytes=total.read_bytes,
            disk_write_bytes=total.write_bytes,
            tasks=[
                TaskSample(name, count.cpu_s, count.rss_bytes, count.threads, reading.tasks[name].run_wait_s)
                for name, count in counts.items()
            ],
            load_average=reading.machine.load_average,
            memory_free_bytes=reading.machine.memory_free_bytes,
            quota_periods=reading.quota.all if reading.quota else None,
            quota_throttled=reading.quota.throttled if reading.quota else None,
        )

    def _remove(self, name: str) -> None:
        self._parse_readings()  # Readings made so far refer to the task, so parse them while it is still known.
        task = self._tasks.pop(name, None)
        if task:
            last = task.count(task.read(self._counters, 0).processes)
            self._removed = _sum([self._removed, last])._replace(rss_bytes=0, threads=0)
            task.close()


class _TaskReading(NamedTuple):
    """What was read of one task for one sample."""

    processes: list[Deferred[ProcessCount]]
    """The process of the task and its children."""
    run_wait_s: float | None


class _HostReading(NamedTuple):
    """All that was read for one sample."""

    t_ns: int
    tasks: dict[str, _TaskReading]
    links: Deferred[LinkCounts]
    cores_busy_s: Deferred[list[float]]
    machine: MachineState
    """As of at most `MACHINE_EVERY_NS` before."""
    quota: QuotaPeriods | None
    """As old as `machine`."""


class _Task:
    """The process of a task with its children; totals never decrease, even if a child ends between two readings."""

    def __init__(self, process: ProcessCounters) -> None:
        self._process = process
        self._children: dict[int, ProcessCounters] = {}
        self._last = _ZERO
        self._children_due_ns = self._threads_due_ns = self._due_ns = 0
        self._run_wait_s: float | None = None
        self._ended_children_run_wait_s = 0.0

    def read(self, counters: HostCounters, t_ns: int) -> _TaskReading:
        """Read the counters; `run_wait_s` is read less often and may be up to `THREADS_EVERY_NS` old."""
        own = self._process.read()
        if t_ns >= self._due_ns:
            self._read_slow_counters(counters, t_ns, alive=own is not None)
        processes = [own] if own else []
        if self._children:
            processes += [reading for child in self._children.values() if (reading := child.read())]
        return _TaskReading(processes, self._run_wait_s)

    def count(self, processes: list[Deferred[ProcessCount]]) -> ProcessCount:
        """The sum over these processes. Readings must be counted in the order in which they were made."""
        now = _sum([process() for process in processes])
        last = self._last
        self._last = ProcessCount(
            max(now.cpu_s, last.cpu_s),
            now.rss_bytes,
            now.threads,
            max(now.read_bytes, last.read_bytes),
            max(now.write_bytes, last.write_bytes),
        )
        return self._last

    def read_run_wait(self) -> None:
        waits_s = [process.run_wait_s() for process in (self._process, *self._children.values())]
        known_s = [wait_s for wait_s in waits_s if wait_s is not None]
        if known_s:
            self._run_wait_s = sum(known_s) + self._ended_children_run_wait_s

    def quota(self) -> QuotaPeriods | None:
        return self._process.quota_periods()

    def close(self) -> None:
        for process in (self._process, *self._children.values()):
            process.close()

    def _read_slow_counters(self, counters: HostCounters, t_ns: int, *, alive: bool) -> None:
        """Read what is too slow to be read for every sample, if it is due."""
        # Once the process has ended, its PID may belong to another process, whose children are not ours.
        if alive and t_ns >= self._children_due_ns:
            self._children_due_ns = t_ns + CHILDREN_EVERY_NS
            self._update_children(counters)
        if t_ns >= self._threads_due_ns:
            self._threads_due_ns = t_ns + THREADS_EVERY_NS
            self.read_run_wait()
        self._due_ns = min(self._children_due_ns, self._threads_due_ns)

    def _update_children(self, counters: HostCounters) -> None:
        pids = self._process.children()
        for pid in self._children.keys() - pids:
            child = self._children.pop(pid)
            self._ended_children_run_wait_s += child.run_wait_s() or 0.0
            child.close()
        for pid in pids:
            if pid not in self._children and (process := counters.process(pid)):
                self._children[pid] = process


def _counters_of_this_system() -> HostCounters:
    if sys.platform == "linux":
        from paceline.agent.procfs import ProcfsHost

        return ProcfsHost()
    from paceline.agent.portable import PortableHost

    return PortableHost()


def _sum(counts: list[ProcessCount]) -> ProcessCount:
    return ProcessCount(*map(sum, zip(*counts, strict=True))) if counts else _ZERO
