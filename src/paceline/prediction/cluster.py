"""The simulated cluster of one configuration: hosts with their limits, tasks, and what all protocols need."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from paceline.plan.layout import TaskPlace
from paceline.plan.limits import HostLimits
from paceline.plan.roles import SERVER, WORKER
from paceline.prediction.costs import WIRE_OVERHEAD, Costs, packets
from paceline.prediction.simulator.hosts import Host, Machine
from paceline.prediction.simulator.simulation import (
    Acquire,
    Await,
    Compute,
    Gate,
    Lock,
    Process,
    Send,
    Simulation,
    Sleep,
)
from paceline.strategies.descriptor import Strategy

GOODPUT = 0.97
"""Share of a link's rate that TCP reaches."""
_BACKGROUND_S = 0.02
"""Other programs compute and pause by turns in this time."""
_NETWORK_CORE = 1
"""The thread that handles messages runs on another core than the one that computes, which is number 0."""
_MESSAGE_BYTES = 100
"""Size of the headers of a message."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration as the simulation needs it."""

    strategy: Strategy
    places: tuple[TaskPlace, ...]
    batch: int
    limits: Mapping[str, HostLimits] = {}
    machine_cores: Mapping[str, float] = {}
    """Cores of each machine, by its name."""
    machine_of: Mapping[str, str] = {}
    """The machine of each host."""
    backup: int = 0
    sync_every: int = 1
    """Steps of each worker between two exchanges."""
    staleness_bound: int | None = None
    """How many steps a worker may be ahead of the slowest before it waits; None: any number."""
    background_cores: Mapping[str, float] = {}
    """Cores of each machine that other programs use."""
    shares: tuple[float, ...] = ()
    """The part of the parameters that each server stores; equal parts if empty."""

    @property
    def workers(self) -> int:
        return sum(place.role == WORKER for place in self.places)

    @property
    def servers(self) -> int:
        return sum(place.role == SERVER for place in self.places)


class StepTimes(NamedTuple):
    """When the parts of one step ended."""

    task: str
    start: float
    computed: float
    sent: float
    waited: float
    end: float


class Task:
    """A simulated task."""

    def __init__(self, name: str, index: int, host: Host, speed: float) -> None:
        self.name, self.index, self.host, self.speed = name, index, host, speed
        self.main, self.network = Lock(), Lock()
        """The thread that computes or serves, and the one that sends and receives."""


class Cluster:
    """A simulation with the hosts and tasks of a configuration, for the protocol of its strategy."""

    def __init__(self, setup: Setup, costs: Costs, seed: int, *, share_spread: float, worker_spread: float) -> None:
        """`worker_spread`: by how much equal workers differ (standard deviation of the logarithm of their costs)."""
        self.setup, self.costs = setup, costs
        self.simulation = Simulation(seed, share_spread)
        self.steps: list[StepTimes] = []
        self.updates: list[float] = []
        """When each update of the global parameters was made."""
        self._connections: dict[tuple[str, str, str], Lock] = {}
        self.serving_s: dict[str, float] = {}
        """Seconds in which each server handled a request."""
        machines = {name: Machine(cores, costs.crowded) for name, cores in setup.machine_cores.items()}
        self._hosts = {}
        for name in dict.fromkeys(place.host for place in setup.places):
            limits = setup.limits.get(name) or HostLimits(host=name)
            rate = limits.link_bits_s / 8 * GOODPUT / WIRE_OVERHEAD if limits.link_bits_s else None
            machine = machines[setup.machine_of[name]]
            self._hosts[name] = self.simulation.add_host(name, machine, cpus=limits.cpus, link_bytes_s=rate)
        for name, cores in setup.background_cores.items():
            self._add_background(name, machines[name], cores)
        tasks = [(place, self._task(place, worker_spread)) for place in setup.places]
        self.workers = [task for place, task in tasks if place.role == WORKER]
        self.servers = [task for place, task in tasks if place.role == SERVER]

    def _add_background(self, name: str, machine: Machine, cores: float) -> None:
        """Other programs that use this many cores of a machine."""
        host = self.simulation.add_host(f"background of {name}", machine)

        def program(share: float) -> Process:
            while True:
                yield Compute(host, share * _BACKGROUND_S, host.name)
                yield Sleep((1 - share) * _BACKGROUND_S + 1e-6)

        while cores > 0:
            self.simulation.spawn(program(min(1.0, cores)))
            cores -= 1

    def _task(self, place: TaskPlace, spread: float) -> Task:
        speed = math.exp(self.simulation.rng.gauss(0.0, spread)) if spread else 1.0
        return Task(place.task, place.index, self._hosts[place.host], speed)

    def noisy(self, cpu_s: float) -> float:
        """A CPU time with the noise of steps; the mean stays the same."""
        spread = self.costs.step_noise
        return cpu_s * math.exp(self.simulation.rng.gauss(-spread * spread / 2, spread)) if spread else cpu_s

    def compute(self, task: Task, cpu_s: float, threads: float = 1.0) -> Compute:
        """Work of a task, with noise."""
        return Compute(task.host, self.noisy(cpu_s) * task.speed * self._limited(task), task.name, threads)

    def handle(self, task: Task, thread: Lock, cpu_s: float) -> Process:
        """Handle a message in a thread of a task; other threads do the part that overlaps."""
        yield Acquire(thread)
        work = self.compute(task, cpu_s)._replace(core=_NETWORK_CORE)
        if self.costs.overlap:
            self.simulation.spawn(_process(work._replace(cpu_s=work.cpu_s * self.costs.overlap)))
            work = work._replace(cpu_s=work.cpu_s * (1 - self.costs.overlap))
        yield work
        self.simulation.release(thread)

    def compute_step(self, worker: Task, part: float = 1.0) -> Compute:
        """The computation of a worker's step, or a part of it."""
        costs = self.costs
        cpu_s = costs.compute_s(self.setup.batch) * (costs.threaded * costs.threads if costs.threads > 1 else 1.0)
        return self.compute(worker, cpu_s * part, costs.threads)

    def _limited(self, task: Task) -> float:
        return self.costs.limited if task.host.limited else 1.0

    def transfer(self, sender: Task, receiver: Task, size: float, connection: str = "") -> Process:
        """Send a message; both ends handle its packets meanwhile. A connection carries one message at a time."""
        lock = self._connections.setdefault((sender.name, receiver.name, connection), Lock())
        yield Acquire(lock)
        gate, remote = Gate(3), sender.host is not receiver.host
        rate = min(filter(None, (self._link(sender), self._link(receiver))), default=None)
        size += _MESSAGE_BYTES
        packet_s = packets(size, rate) * self.costs.packet_s if remote else 0.0
        self._spawn_then_signal(Send(sender.host.name, receiver.host.name, size), gate)
        for task in (sender, receiver):
            work = Compute(task.host, packet_s * self._limited(task), task.name, core=_NETWORK_CORE)
            self._spawn_then_signal(work, gate)
        yield Await(gate)
        self.simulation.release(lock)
        delay_s = self.costs.hop_s + (self._latency(sender) if remote else 0.0)
        if delay_s:
            yield Sleep(delay_s)

    def _spawn_then_signal(self, request: Send | Compute, gate: Gate) -> None:
        def process() -> Process:
            yield request
            self.simulation.signal(gate)

        self.simulation.spawn(process())

    def _limits(self, task: Task) -> HostLimits | None:
        return self.setup.limits.get(task.host.name)

    def _link(self, task: Task) -> int | None:
        limits = self._limits(task)
        return limits.link_bits_s if limits else None

    def _latency(self, task: Task) -> float:
        limits = self._limits(task)
        return (limits.latency_s or 0.0) if limits else 0.0


def _process(request: Compute) -> Process:
    yield request
