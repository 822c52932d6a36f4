"""Reads a host's counters: its tasks, the machine's cores, its links. Rates are made later, from differences."""

import sys
import threading
import time
from typing import NamedTuple

from paceline.agent.counters import Deferred, HostCounters, Links, ProcessCount, ProcessCounters
from paceline.messages import HostSample, TaskSample

CHILDREN_EVERY_NS = 2_000_000_000  # looking for children is slow, and most tasks have none
THREADS_EVERY_NS = 1_000_000_000  # it means a look at every thread, and frameworks have many

_NOTHING = ProcessCount(0.0, 0, 0, 0, 0)


class Sampler:
    """Counts for one host. Tasks may come and go while another thread samples."""

    def __init__(self, counters: HostCounters | None = None) -> None:
        self._counters = counters or counters_of_this_system()
        self._tasks: dict[str, _Task] = {}
        self._gone = _NOTHING
        self._looks: list[_Look] = []
        self._samples: list[HostSample] = []
        self._lock = threading.Lock()

    def add(self, task: str, pid: int) -> None:
        """Count this process, and its children, as the task; one that already ended counts nothing."""
        with self._lock:
            self._forget(task)
            process = self._counters.process(pid)
            if process:
                self._tasks[task] = _Task(process)

    def remove(self, task: str) -> None:
        """Stop sampling the task; what it used stays in the host's total."""
        with self._lock:
            self._forget(task)

    def settle(self, task: str) -> None:
        """The task is about to end: look now at what can be seen only while its threads live."""
        with self._lock:
            if task in self._tasks:
                self._tasks[task].look_at_threads()

    def look(self) -> None:
        """Read all counters, for one sample more."""
        with self._lock:
            t_ns = time.monotonic_ns()
            tasks = {name: task.look(self._counters, t_ns) for name, task in self._tasks.items()}
            self._looks.append(_Look(t_ns, tasks, self._counters.links(), self._counters.cores_busy_s()))

    def samples(self) -> list[HostSample]:
        """One for each look since the last call."""
        with self._lock:
            self._make_out()
            found, self._samples = self._samples, []
        return found

    def _make_out(self) -> None:
        self._samples += [self._sample(look) for look in self._looks]
        self._looks = []

    def _sample(self, look: "_Look") -> HostSample:
        counts = {name: self._tasks[name].count(seen.own_and_children) for name, seen in look.tasks.items()}
        total, links = _sum([self._gone, *counts.values()]), look.links()
        return HostSample(
            t_ns=look.t_ns,
            cpu_s=total.cpu_s,
            cores_busy_s=look.cores_busy_s(),
            memory_bytes=total.rss_bytes,
            external=links.external,
            loopback=links.loopback,
            disk_read_bytes=total.read_bytes,
            disk_write_bytes=total.write_bytes,
            tasks=[
                TaskSample(name, count.cpu_s, count.rss_bytes, count.threads, look.tasks[name].run_wait_s)
                for name, count in counts.items()
            ],
        )

    def _forget(self, name: str) -> None:
        self._make_out()  # What was seen so far is told with it.
        task = self._tasks.pop(name, None)
        if task:
            last = task.count(task.look(self._counters, 0).own_and_children)
            self._gone = _sum([self._gone, last])._replace(rss_bytes=0, threads=0)
            task.close()


class _Seen(NamedTuple):
    """Of a task."""

    own_and_children: list[Deferred[ProcessCount]]
    run_wait_s: float | None


class _Look(NamedTuple):
    """All that was read for a sample."""

    t_ns: int
    tasks: dict[str, _Seen]
    links: Deferred[Links]
    cores_busy_s: Deferred[list[float]]


class _Task:
    """A task's process with its children; totals never fall, also when a child ends uncounted."""

    def __init__(self, process: ProcessCounters) -> None:
        self._process = process
        self._children: dict[int, ProcessCounters] = {}
        self._last = _NOTHING
        self._children_due_ns = self._threads_due_ns = self._due_ns = 0
        self._run_wait_s: float | None = None
        self._gone_run_wait_s = 0.0

    def look(self, counters: HostCounters, t_ns: int) -> _Seen:
        """What a task waited for a core is as of the last look at its threads, which may be a second ago."""
        own = self._process.read()
        if t_ns >= self._due_ns:
            self._look_closer(counters, t_ns, alive=own is not None)
        seen = [own] if own else []
        if self._children:
            seen += [reading for child in self._children.values() if (reading := child.read())]
        return _Seen(seen, self._run_wait_s)

    def count(self, readings: list[Deferred[ProcessCount]]) -> ProcessCount:
        """To be called in the order in which they were read."""
        now = _sum([reading() for reading in readings])
        last = self._last
        self._last = ProcessCount(
            max(now.cpu_s, last.cpu_s),
            now.rss_bytes,
            now.threads,
            max(now.read_bytes, last.read_bytes),
            max(now.write_bytes, last.write_bytes),
        )
        return self._last

    def look_at_threads(self) -> None:
        waits_s = [process.run_wait_s() for process in (self._process, *self._children.values())]
        told_s = [wait_s for wait_s in waits_s if wait_s is not None]
        if told_s:
            self._run_wait_s = sum(told_s) + self._gone_run_wait_s

    def close(self) -> None:
        for process in (self._process, *self._children.values()):
            process.close()

    def _look_closer(self, counters: HostCounters, t_ns: int, *, alive: bool) -> None:
        """At what is too slow to be looked at for every sample."""
        if alive and t_ns >= self._children_due_ns:  # once it is gone, its number may be another's
            self._children_due_ns = t_ns + CHILDREN_EVERY_NS
            self._find_children(counters)
        if t_ns >= self._threads_due_ns:
            self._threads_due_ns = t_ns + THREADS_EVERY_NS
            self.look_at_threads()
        self._due_ns = min(self._children_due_ns, self._threads_due_ns)

    def _find_children(self, counters: HostCounters) -> None:
        found = self._process.children()
        for pid in self._children.keys() - found:
            child = self._children.pop(pid)
            self._gone_run_wait_s += child.run_wait_s() or 0.0
            child.close()
        for pid in found:
            if pid not in self._children and (process := counters.process(pid)):
                self._children[pid] = process


def counters_of_this_system() -> HostCounters:
    if sys.platform == "linux":
        from paceline.agent.procfs import ProcfsHost

        return ProcfsHost()
    from paceline.agent.portable import PortableHost

    return PortableHost()


def _sum(counts: list[ProcessCount]) -> ProcessCount:
    return ProcessCount(*map(sum, zip(*counts, strict=True))) if counts else _NOTHING
