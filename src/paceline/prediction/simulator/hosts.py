"""Simulated machines and hosts: cores that the jobs of all hosts of a machine share, and the CPU quota of a host.

The kernel does not give out a quota by the microsecond: the run queue of each core takes a slice of it. A thread that
wakes up on a second core may find nothing left, and waits for the next period although the quota is not used up.
"""

import math
from typing import Any

from paceline.prediction.costs import crowding

PERIOD_S = 0.010
"""After this time the kernel refills the quota of a host with a CPU limit."""
_MIN_QUOTA_S = 0.001
_SLICE_S = 0.005
"""What the run queue of a core takes of the quota at once."""
_KEPT_S = 0.001
"""What a run queue keeps of its slice when it has nothing to run."""
_TICK_S = 0.004
"""The kernel notices a used-up quota at the next clock tick. What was used beyond the quota is taken from the next."""
_OVERSUBSCRIBED = 0.85
"""Part of the cores that is busy if more threads can run than there are cores: the scheduler moves threads that wait on
one core to an idle one late, and a thread that was alone on its core soon uses up its quota."""
_NEVER = math.inf


class Machine:
    """Cores for which the jobs of its hosts compete."""

    def __init__(self, cores: float, crowded: float = 1.0) -> None:
        """`crowded`: by what factor work takes more CPU time while all cores are busy."""
        self.cores, self._crowded = cores, crowded
        self.hosts: list[Host] = []

    def set_speeds(self) -> None:
        """Divide the cores equally among the jobs that can run; a job uses at most as many cores as it has threads.

        If there are more threads than cores, the scheduler does not keep all of them busy.
        """
        wanted = sum(job.threads for host in self.hosts for job in host.jobs if not job.queue.throttled)
        share = 1.0 if wanted <= self.cores else _OVERSUBSCRIBED * self.cores / wanted
        slowdown = self._crowded ** crowding(min(wanted, self.cores), self.cores) if self._crowded != 1 else 1.0
        for host in self.hosts:
            for job in host.jobs:
                job.cores = 0.0 if job.queue.throttled else share * job.threads
                job.speed = job.cores / slowdown


class Job:
    """CPU work that a process waits for."""

    __slots__ = ("cores", "left_s", "process", "queue", "speed", "task", "threads")

    def __init__(self, cpu_s: float, threads: float, task: str, process: Any) -> None:
        self.left_s, self.threads, self.task, self.process = cpu_s, threads, task, process
        self.queue = Queue()
        """The run queue of its core; that of its host once it is added to one."""
        self.cores = self.speed = 0.0
        """Cores that it has at present, and how much of its work it does per second with them."""


class Queue:
    """The run queue of one core for the jobs of one host."""

    __slots__ = ("jobs", "left_s", "throttled")

    def __init__(self) -> None:
        self.jobs = 0
        self.left_s = 0.0
        """What is left of its slice of the quota; negative if it used more."""
        self.throttled = False


class Host:
    """A host on a machine. With a CPU limit, its jobs share a quota that is refilled every period."""

    def __init__(self, name: str, machine: Machine, cpus: float | None, phase: float) -> None:
        """`phase`, from 0 to 1, is where in its period the host is at time 0."""
        self.name, self.machine, self.cpus = name, machine, cpus
        self.jobs: list[Job] = []
        self.period_s = PERIOD_S if cpus is None else max(PERIOD_S, min(_MIN_QUOTA_S / cpus, 1.0))
        self._quota_s = _NEVER if cpus is None else cpus * self.period_s
        self._pool_s = self._quota_s
        """What no queue has taken of the quota."""
        self._queues = [Queue() for _ in range(1 if cpus is None else max(1, round(machine.cores)))]
        self._refill_at = phase * self.period_s
        self._tick_phase_s = phase * _TICK_S
        machine.hosts.append(self)

    @property
    def limited(self) -> bool:
        return self.cpus is not None

    def add(self, job: Job, core: int, now: float) -> None:
        """Start a job on this core, or on another one if other jobs of the host run there."""
        count = len(self._queues)
        queue = min((self._queues[(core + further) % count] for further in range(count)), key=lambda one: one.jobs)
        if self.cpus is not None:
            self.update(now)
            if queue.left_s <= 0 and not queue.throttled:
                self._take(queue)
                queue.throttled = queue.left_s <= 0
        queue.jobs += 1
        job.queue = queue
        self.jobs.append(job)

    def remove(self, done: list[Job]) -> None:
        """End these jobs; a queue with nothing to run gives most of its slice back."""
        self.jobs = [job for job in self.jobs if job not in done]
        for job in done:
            queue = job.queue
            queue.jobs -= 1
            if self.cpus is not None and not queue.jobs and queue.left_s > _KEPT_S:
                self._pool_s += queue.left_s - _KEPT_S
                queue.left_s = _KEPT_S

    def next_change(self, now: float) -> float:
        """When its quota is refilled, or a queue needs more of it; infinity if it has no limit or nothing to do."""
        if self.cpus is None or not self.jobs:
            return _NEVER
        found = self._refill_at
        for queue in self._queues:
            if queue.jobs and not queue.throttled:
                used = sum(job.cores for job in self.jobs if job.queue is queue)
                empty_at = now + max(0.0, queue.left_s) / used if used else _NEVER
                if self._pool_s <= 0 and empty_at < found:
                    ticks = math.ceil((empty_at - self._tick_phase_s) / _TICK_S - 1e-9)
                    empty_at = max(now, self._tick_phase_s + ticks * _TICK_S)
                found = min(found, empty_at)
        return found

    def update(self, now: float) -> bool:
        """Refill and throttle as of now; whether that changed which jobs can run."""
        if self.cpus is None:
            return False
        before = [queue.throttled for queue in self._queues]
        if now >= self._refill_at - 1e-12:
            self._refill(now)
        for queue in self._queues:
            if queue.jobs and not queue.throttled and queue.left_s <= 1e-12:
                self._take(queue)
                if queue.left_s <= 1e-12:
                    ticks = (now - self._tick_phase_s) / _TICK_S
                    queue.throttled = abs(ticks - round(ticks)) < 1e-6
        return before != [queue.throttled for queue in self._queues]

    def _refill(self, now: float) -> None:
        periods = math.floor((now - self._refill_at) / self.period_s + 1e-9) + 1
        self._refill_at += periods * self.period_s
        self._pool_s = self._quota_s
        for queue in self._queues:
            if queue.throttled:
                debt = min(max(0.0, -queue.left_s) + 1e-9, self._pool_s)
                self._pool_s -= debt
                queue.left_s += debt
                queue.throttled = queue.left_s <= 0

    def _take(self, queue: Queue) -> None:
        """Fill the slice of a queue as far as the quota suffices."""
        taken = min(_SLICE_S - queue.left_s, self._pool_s)
        if taken > 0:
            self._pool_s -= taken
            queue.left_s += taken
