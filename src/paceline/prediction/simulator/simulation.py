"""A discrete-event simulation of processes that compute on hosts, send bytes over links and wait for each other.

A process is a generator that yields what it needs next: `Compute`, `Send`, `Sleep`, `Acquire` or `Await`. The result of
a simulation depends only on its processes and its seed.
"""

import heapq
import math
from collections import Counter
from collections.abc import Generator
from itertools import count
from random import Random
from typing import Any, NamedTuple

from paceline.prediction.simulator.hosts import Host, Job, Machine
from paceline.prediction.simulator.links import Direction, Flow, flow_weight, set_rates

_DONE_S, _DONE_BYTES = 1e-12, 1e-3


class Lock:
    """Held by one process at a time; the others get it in the order in which they asked."""

    def __init__(self) -> None:
        self.held = False
        self.waiting: list[Process] = []


class Gate:
    """Opens after `signals` signals; processes that wait for it then go on."""

    def __init__(self, signals: int = 1) -> None:
        self.left = signals
        self.waiting: list[Process] = []


class Compute(NamedTuple):
    """Use the CPU of a host for `cpu_s` seconds of CPU time, with up to `threads` cores."""

    host: Host
    cpu_s: float
    task: str
    threads: float = 1.0
    core: int = 0
    """The core on which it runs if the host has no other job there."""


class Send(NamedTuple):
    """Send bytes from one host to another; on the same host they arrive at once."""

    sender: str
    receiver: str
    size: float


class Sleep(NamedTuple):
    seconds: float


class Acquire(NamedTuple):
    lock: Lock


class Await(NamedTuple):
    gate: Gate


Request = Compute | Send | Sleep | Acquire | Await
Process = Generator[Request, None, None]


class Simulation:
    """Hosts, their links, and processes; `run` advances the time."""

    def __init__(self, seed: int, share_spread: float = 0.0) -> None:
        """`share_spread`: by how much the shares of flows on one link differ (standard deviation of the logarithm)."""
        self.now = 0.0
        self.events = 0
        """How often something has changed so far; the time that a simulation takes grows with it."""
        self.rng = Random(seed)
        self.cpu_s: Counter[str] = Counter()
        """CPU seconds used by each task so far."""
        self.core_wait_s: Counter[str] = Counter()
        """Seconds that jobs of each task could not run at full speed."""
        self.links: dict[str, tuple[Direction, Direction]] = {}
        """Uplink and downlink of each host."""
        self._share_spread = share_spread
        self._hosts: list[Host] = []
        self._machines: list[Machine] = []
        self._flows: list[Flow] = []
        self._timers: list[tuple[float, int, Any]] = []
        self._numbers = count()
        self._jobs_changed = self._flows_changed = False

    def add_host(
        self, name: str, machine: Machine, *, cpus: float | None = None, link_bytes_s: float | None = None
    ) -> Host:
        """A new host with a link of this rate in each direction; None is no limit."""
        host = Host(name, machine, cpus, self.rng.random())
        self._hosts.append(host)
        if machine not in self._machines:
            self._machines.append(machine)
        self.links[name] = Direction(link_bytes_s), Direction(link_bytes_s)
        return host

    def spawn(self, process: Process) -> None:
        """Start a process at the present time."""
        self._advance(process)

    def release(self, lock: Lock) -> None:
        if lock.waiting:
            self._at(self.now, lock.waiting.pop(0))
        else:
            lock.held = False

    def signal(self, gate: Gate) -> None:
        gate.left -= 1
        if gate.left == 0:
            for process in gate.waiting:
                self._at(self.now, process)
            gate.waiting = []

    def run(self, until: float) -> None:
        """Advance to this time, or until nothing is left to do."""
        while self.now < until:
            self._set_speeds()
            next_at = min(self._next_event(), until)
            if next_at == math.inf:
                return
            self.events += 1
            self._pass_time(next_at - self.now)
            self.now = next_at
            for host in self._hosts:
                if host.cpus is not None and host.update(self.now):
                    self._jobs_changed = True
            for process in self._finished():
                self._advance(process)
            while self._timers and self._timers[0][0] <= self.now:
                self._advance(heapq.heappop(self._timers)[2])

    def _set_speeds(self) -> None:
        if self._jobs_changed:
            for machine in self._machines:
                machine.set_speeds()
        if self._flows_changed and self._flows:
            set_rates(self._flows)
        self._jobs_changed = self._flows_changed = False

    def _next_event(self) -> float:
        now = self.now
        found = self._timers[0][0] if self._timers else math.inf
        for host in self._hosts:
            if not host.jobs:
                continue
            for job in host.jobs:
                if job.speed and (end := now + job.left_s / job.speed) < found:
                    found = end
            if host.cpus is not None and (end := host.next_change(now)) < found:
                found = end
        for flow in self._flows:
            if (end := now + flow.left / flow.rate) < found:
                found = end
        return found

    def _pass_time(self, seconds: float) -> None:
        for host in self._hosts:
            for job in host.jobs:
                used = job.cores * seconds
                job.left_s -= job.speed * seconds
                self.cpu_s[job.task] += used  # type: ignore[assignment]
                if job.cores < job.threads:
                    self.core_wait_s[job.task] += (1 - job.cores / job.threads) * seconds  # type: ignore[assignment]
                job.queue.left_s -= used
        for flow in self._flows:
            flow.left -= flow.rate * seconds
        if self._flows:
            for up, down in self.links.values():
                up.busy_s += seconds if up.flows else 0.0
                down.busy_s += seconds if down.flows else 0.0

    def _finished(self) -> list[Process]:
        """The processes whose computation or transfer is complete."""
        processes = []
        for host in self._hosts:
            if done := [job for job in host.jobs if job.left_s <= _DONE_S]:
                processes += [job.process for job in done]
                host.remove(done)
                self._jobs_changed = True
        for flow in [flow for flow in self._flows if flow.left <= _DONE_BYTES]:
            self._flows.remove(flow)
            self._flows_changed = True
            for direction in flow.directions:
                direction.remove(flow, self.now)
            processes.append(flow.process)
        return processes

    def _at(self, time: float, process: Process) -> None:
        heapq.heappush(self._timers, (time, next(self._numbers), process))

    def _advance(self, process: Process) -> None:
        """Let a process go on until it needs something that takes time."""
        for request in process:
            match request:
                case Compute(host, cpu_s, task, threads, core):
                    if cpu_s <= 0:
                        continue
                    host.add(Job(cpu_s, threads, task, process), core, self.now)
                    self._jobs_changed = True
                case Send(sender, receiver, size):
                    if not self._send(sender, receiver, size, process):
                        continue
                case Sleep(seconds):
                    self._at(self.now + seconds, process)
                case Acquire(lock):
                    if not lock.held:
                        lock.held = True
                        continue
                    lock.waiting.append(process)
                case Await(gate):
                    if gate.left <= 0:
                        continue
                    gate.waiting.append(process)
            return

    def _send(self, sender: str, receiver: str, size: float, process: Process) -> bool:
        """Start a flow; False if the bytes arrive at once."""
        if sender == receiver:
            return False
        directions = self.links[sender][0], self.links[receiver][1]
        for direction in directions:
            direction.bytes += size
        burst = min(size, *(direction.burst(self.now) for direction in directions))
        if burst >= size and all(direction.rate is None for direction in directions):
            return False
        flow = Flow(max(size - burst, _DONE_BYTES), directions, flow_weight(self.rng, self._share_spread), process)
        for direction in directions:
            direction.add(flow, burst, self.now)
        self._flows.append(flow)
        self._flows_changed = True
        return True
