"""The numbers about a run from which its bottleneck is found. Plain data, no conclusions."""

import msgspec


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per phase, of one worker or of all workers together."""

    data: float = 0.0
    pull: float = 0.0
    compute: float = 0.0
    push: float = 0.0
    wait: float = 0.0
    eval: float = 0.0
    checkpoint: float = 0.0
    other: float = 0.0
    """Time inside steps that belongs to no phase."""

    @property
    def total(self) -> float:
        return float(sum(getattr(self, name) for name in self.__struct_fields__))

    @property
    def exchange(self) -> float:
        return self.pull + self.push

    @property
    def own(self) -> float:
        """Time that does not depend on other workers: everything but waiting, evaluation and checkpoints."""
        return self.data + self.pull + self.compute + self.push + self.other


class TaskUse(msgspec.Struct, frozen=True, kw_only=True):
    """CPU use of a task, averaged over the training."""

    cpu_cores: float = 0.0
    run_wait: float = 0.0
    """Average number of threads that were ready to run but waited for a core."""

    @property
    def starved(self) -> float:
        """Share of its time in which the task waited for a CPU core."""
        # Threads that work together wait when one of them waits.
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
    """Share of the time in which it handled requests. If only its CPU time is known: share of the cores it may use."""
    use: TaskUse = TaskUse()
    holds: dict[str, int] = {}
    """Number of values that this server holds of each parameter."""


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
    """CPU limit of its tasks, in cores; None without a limit."""
    cores: int = 0
    """Cores of the machine that it is on; 0 if that is not known."""
    other_cores: float = 0.0
    """Cores of that machine that other programs used."""

    @property
    def is_full(self) -> bool:
        return self.cpus is not None and self.cpu_cores >= FULL * self.cpus


FULL = 0.85
"""Share of a CPU limit from which it counts as used up. Never 1: a quota is refilled at intervals, and what a task does
not use of it while it waits for something else is lost."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    synchronous: bool
    trains: bool = True
    seconds: float
    """Duration of the training."""
    startup_s: float = 0.0
    total_s: float = 0.0
    workers: tuple[WorkerFacts, ...]
    servers: tuple[ServerFacts, ...] = ()
    links: tuple[LinkFacts, ...] = ()
    hosts: tuple[HostFacts, ...] = ()
    machine_cores: int = 0
    """Cores of the machine that all hosts share; 0 if every host is a machine of its own."""
    other_cores: float = 0.0
    """Cores used by programs that do not belong to the run."""
    arithmetic_s: float | None = None
    """Lower bound for the arithmetic of one step, in seconds; None if the operations of the model are not known."""
    last: dict[str, float] = {}
    """Share of the synchronous steps in which each worker was the last one at the barrier."""
    coverage: float = 1.0
    """Share of the workers' time between their first and last step that the records cover."""

    @property
    def phases(self) -> Phases:
        """Phases of all workers together."""
        names = Phases.__struct_fields__
        return Phases(**{name: sum(getattr(worker.phases, name) for worker in self.workers) for name in names})

    @property
    def steps(self) -> int:
        """Steps of the worker that made the fewest."""
        return min((worker.steps for worker in self.workers), default=0)

    def machine_is_full(self, host: HostFacts) -> bool:
        """Whether the cores of the host's machine were busy, on average; True if that is not known."""
        if self.machine_cores:
            used = sum(one.cpu_cores for one in self.hosts) + self.other_cores
            return used >= FULL * self.machine_cores
        return not host.cores or host.cpu_cores + host.other_cores >= FULL * host.cores

    def host(self, name: str) -> HostFacts:
        return next(host for host in self.hosts if host.host == name)
