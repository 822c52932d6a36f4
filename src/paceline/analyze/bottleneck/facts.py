"""What a verdict is made from: a run boiled down to a few numbers, without a judgement yet."""

import msgspec


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one or all workers' time, by what they went to."""

    data: float = 0.0
    pull: float = 0.0
    compute: float = 0.0
    push: float = 0.0
    wait: float = 0.0
    eval: float = 0.0
    checkpoint: float = 0.0
    other: float = 0.0
    """Of steps, but in no phase."""

    @property
    def total(self) -> float:
        return float(sum(getattr(self, name) for name in self.__struct_fields__))

    @property
    def exchange(self) -> float:
        return self.pull + self.push

    @property
    def own(self) -> float:
        """What a worker needed for itself, whatever the others did."""
        return self.data + self.pull + self.compute + self.push + self.other


class TaskUse(msgspec.Struct, frozen=True, kw_only=True):
    """Of a task over the training."""

    cpu_cores: float = 0.0
    run_wait: float = 0.0
    """Threads that were ready to run but had no core, on average."""

    @property
    def starved(self) -> float:
        """Share of its time in which it could not go on for want of a core."""
        # With several threads at it, all have to wait for the one that waits.
        return self.run_wait / max(1.0, self.cpu_cores + self.run_wait)


class WorkerFacts(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    host: str
    steps: int
    phases: Phases
    use: TaskUse = TaskUse()
    threads: int = 1


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    host: str
    busy: float
    """Share of the time that it had something to do; where only its CPU time is known, of the cores it may use."""
    use: TaskUse = TaskUse()
    holds: dict[str, int] = {}
    """Values of each parameter that are its to keep."""


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    way: str
    """`out of` or `into` the host."""
    mb_s: float
    capacity_mb_s: float
    known_from: str

    @property
    def full(self) -> float:
        return self.mb_s / self.capacity_mb_s


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    tasks: tuple[str, ...]
    cpu_cores: float
    cpus: float | None = None
    """What its tasks are held to."""

    @property
    def is_full(self) -> bool:
        return self.cpus is not None and self.cpu_cores >= NEARLY_FULL * self.cpus


NEARLY_FULL = 0.85
"""A quota is refilled at intervals, and what is left of one when a task waits for something else is lost."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    synchronous: bool
    trains: bool = True
    seconds: float
    """Of training."""
    startup_s: float = 0.0
    total_s: float = 0.0
    workers: tuple[WorkerFacts, ...]
    servers: tuple[ServerFacts, ...] = ()
    links: tuple[LinkFacts, ...] = ()
    hosts: tuple[HostFacts, ...] = ()
    machine_cores: int = 0
    """Of the machine that all hosts share; 0 where each has its own."""
    other_cores: float = 0.0
    """Used by anything but the run."""
    arithmetic_s: float | None = None
    """What calculating alone would take a worker for a step, at best; None if nobody knows."""
    last: dict[str, float] = {}
    """For each worker, the share of synchronous steps in which it was the last."""
    coverage: float = 1.0
    """Share of the workers' time between their first and last step that is on record."""

    @property
    def phases(self) -> Phases:
        """Of all workers together."""
        names = Phases.__struct_fields__
        return Phases(**{name: sum(getattr(worker.phases, name) for worker in self.workers) for name in names})

    @property
    def steps(self) -> int:
        """Of the worker that made fewest."""
        return min((worker.steps for worker in self.workers), default=0)

    @property
    def machine_is_full(self) -> bool:
        """Whether its cores were, on average over the training; nobody knows of machines that hosts do not share."""
        used = sum(host.cpu_cores for host in self.hosts) + self.other_cores
        return not self.machine_cores or used >= NEARLY_FULL * self.machine_cores

    def host(self, name: str) -> HostFacts:
        return next(host for host in self.hosts if host.host == name)
