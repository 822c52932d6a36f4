"""Simulated machines and hosts: cores that the jobs of all hosts of a machine share, and the CPU quota of a host."""

import math
from typing import Any

from paceline.prediction.costs import crowding

PERIOD_S = 0.010
"""After this time the kernel refills the quota of a host with a CPU limit."""
_MIN_QUOTA_S = 0.001
_TICK_S = 0.004
"""The kernel notices a used-up quota at the next clock tick. What was used beyond the quota is taken from the next."""
_NEVER = math.inf


class Machine:
    """Cores for which the jobs of its hosts compete."""

    def __init__(self, cores: float, crowded: float = 1.0) -> None:
        """`crowded`: by what factor work takes more CPU time while all cores are busy."""
        self.cores, self._crowded = cores, crowded
        self.hosts: list[Host] = []

    def set_speeds(self) -> None:
        """Divide the cores equally among the jobs that can run; a job uses at most as many cores as it has threads."""
        running = [job for host in self.hosts if not host.throttled for job in host.jobs]
        wanted = sum(job.threads for job in running)
        share = min(1.0, self.cores / wanted) if wanted else 0.0
        slowdown = self._crowded ** crowding(min(wanted, self.cores), self.cores) if self._crowded != 1 else 1.0
        for host in self.hosts:
            for job in host.jobs:
                job.cores = 0.0 if host.throttled else share * job.threads
                job.speed = job.cores / slowdown


class Job:
    """CPU work that a process waits for."""

    __slots__ = ("cores", "left_s", "process", "speed", "task", "threads")

    def __init__(self, cpu_s: float, threads: float, task: str, process: Any) -> None:
        self.left_s, self.threads, self.task, self.process = cpu_s, threads, task, process
        self.cores = self.speed = 0.0
        """Cores that it has at present, and how much of its work it does per second with them."""


class Host:
    """A host on a machine. With a CPU limit, its jobs share a quota that is refilled every period."""

    def __init__(self, name: str, machine: Machine, cpus: float | None, phase: float) -> None:
        """`phase`, from 0 to 1, is where in its period the host is at time 0."""
        self.name, self.machine, self.cpus = name, machine, cpus
        self.jobs: list[Job] = []
        self.throttled = False
        self.period_s = PERIOD_S if cpus is None else max(PERIOD_S, min(_MIN_QUOTA_S / cpus, 1.0))
        self._quota_s = _NEVER if cpus is None else cpus * self.period_s
        self._left_s = self._quota_s
        self._refill_at = phase * self.period_s
        self._tick_phase_s = phase * _TICK_S
        machine.hosts.append(self)

    @property
    def limited(self) -> bool:
        return self.cpus is not None

    def next_change(self, now: float) -> float:
        """When its quota is refilled, or used up and noticed; infinity if it has no limit or nothing to do."""
        if self.cpus is None or not self.jobs:
            return _NEVER
        if self.throttled:
            return self._refill_at
        used = sum(job.cores for job in self.jobs)
        empty_at = now + max(0.0, self._left_s) / used if used else _NEVER
        if empty_at >= self._refill_at:
            return self._refill_at
        ticks = math.ceil((empty_at - self._tick_phase_s) / _TICK_S - 1e-9)
        return min(self._refill_at, max(now, self._tick_phase_s + ticks * _TICK_S))

    def use(self, cpu_s: float) -> None:
        self._left_s -= cpu_s

    def update(self, now: float) -> bool:
        """Refill and throttle as of now; whether that changed which jobs can run."""
        if self.cpus is None:
            return False
        if now >= self._refill_at - 1e-12:
            periods = math.floor((now - self._refill_at) / self.period_s + 1e-9) + 1
            self._refill_at += periods * self.period_s
            self._left_s = min(self._left_s + periods * self._quota_s, self._quota_s)
        before = self.throttled
        if self._left_s > 1e-12:
            self.throttled = False
        elif self.jobs and not self.throttled:
            ticks = (now - self._tick_phase_s) / _TICK_S
            self.throttled = abs(ticks - round(ticks)) < 1e-6
        return self.throttled != before
