"""The measured numbers of a run from which its bottleneck is found. This module holds plain data and no conclusions."""

from collections.abc import Mapping

import msgspec


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per phase, of one worker or of all workers together."""

    data: float = 0.0
    pull: float = 0.0
    compute: float = 0.0
    push: float = 0.0
    wait: float = 0.0
    """Waiting for other workers."""
    eval: float = 0.0
    checkpoint: float = 0.0
    fused: float = 0.0
    """Calls of the framework that pull, compute, push and wait in one, if no traced step says in which proportions."""
    other: float = 0.0
    """Time inside steps that belongs to no phase."""

    @property
    def total(self) -> float:
        return float(sum(getattr(self, name) for name in self.__struct_fields__))

    @property
    def exchange(self) -> float:
        return self.pull + self.push

    @property
    def step_work(self) -> float:
        """Time that a worker spends on its steps: everything but waiting, evaluation and checkpoints."""
        return float(sum(getattr(self, name) for name in STEP_PHASES))


STEP_PHASES = ("data", "pull", "compute", "push", "fused", "other")
"""The phases in which a worker works on its step; in `wait` it waits for the steps of others."""


class TaskUse(msgspec.Struct, frozen=True, kw_only=True):
    """CPU use of a task, averaged over the training."""

    cpu_cores: float = 0.0
    run_wait: float = 0.0
    """Average number of threads that were ready to run but waited for a core."""

    @property
    def waiting_for_core(self) -> float:
        """Share of its time in which the task waited for a CPU core."""
        # The threads of a task work together: when one of them waits for a core, the others wait for it.
        return self.run_wait / max(1.0, self.cpu_cores + self.run_wait)


class WorkerFacts(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    host: str
    steps: int
    """Steps of this run, to which the phases belong, without those of a run that it resumes."""
    phases: Phases
    use: TaskUse = TaskUse()
    threads: int = 1
    """Compute threads that the worker was given."""
    scheduler_s: float = 0.0
    """Seconds of `wait` in which the framework's scheduler had not started its work yet or not noticed its end."""
    gc_s: float = 0.0
    """Seconds of `other` in which the framework's runtime collected garbage."""
    lines: Mapping[str, str] = {}
    """Of a user's script, the line in which each phase was most often: `81 % in collate, train.py:88`."""
    detail: Mapping[str, Mapping[str, float]] = {}
    """Of a user's script, the seconds of the phases that are counted together, by the phase that they count as:
    forward, backward and optimizer as compute, exchange as push."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter server."""

    task: str
    host: str
    busy: float
    """Share of the time in which it handled requests. If only its CPU time is known: share of the cores it may use."""
    use: TaskUse = TaskUse()
    parameter_sizes: dict[str, int] = {}
    """Number of values that this server stores of each parameter, by the parameter's name."""


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The network link of a host. Rates are means over the training."""

    host: str
    outbound_mb_s: float
    inbound_mb_s: float
    outbound_capacity_mb_s: float
    inbound_capacity_mb_s: float
    known_from: str
    """Where the capacity is known from, e.g. `measured`."""
    fuller_direction: float = 0.0
    """Mean over the samples of the utilization of the direction that was fuller at the time. It is 1 for a link that is
    full in one direction and then in the other, although each direction is used half of the time."""

    @property
    def outbound(self) -> float:
        """Share of the capacity that was used; slightly above 1 if the capacity was measured too low."""
        return self.outbound_mb_s / self.outbound_capacity_mb_s

    @property
    def inbound(self) -> float:
        return self.inbound_mb_s / self.inbound_capacity_mb_s

    @property
    def utilization(self) -> float:
        """Share of the capacity that was used in the fuller direction; if these are full in turn, in both together."""
        return self.fuller_direction if self.alternates else max(self.outbound, self.inbound)

    @property
    def alternates(self) -> bool:
        """Whether the link is clearly fuller than each of its directions: these are full in turn."""
        return self.fuller_direction >= IN_TURN * max(self.outbound, self.inbound)


IN_TURN = 1.2
"""Factor from which a link counts as full in turn. Directions that are full at the same time reach 1.1 by bursts."""


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    tasks: tuple[str, ...]
    cpu_cores: float
    """Cores that the host's tasks used, averaged over the training."""
    cpus: float | None = None
    """CPU limit of its tasks, in cores; None without a limit."""
    cores: int = 0
    """Cores of the machine that it is on; 0 if that is not known."""
    background_cores: float = 0.0
    """Cores of that machine that other programs used."""
    throttled: float | None = None
    """Share of the periods of a CPU limit in which it stopped the tasks; None without a limit, and if not measured."""

    @property
    def cpu_limit_reached(self) -> bool:
        if self.throttled is not None and self.throttled >= MOSTLY_THROTTLED:
            return True
        return self.cpus is not None and self.cpu_cores >= SATURATED * self.cpus


SATURATED = 0.85
"""Share of a CPU limit, or of a machine's cores, from which it counts as used up. It is below 1 because the quota of a
limit is refilled at intervals: the part that a task does not use while it waits for something else is lost."""

MOSTLY_THROTTLED = 0.5
"""Share of the periods of a CPU limit from which the limit counts as reached, however few cores the tasks used."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about a run when its bottleneck is looked for."""

    synchronous: bool
    server_is: str = "server"
    """What the task that holds the parameters is called, as a cause."""
    one_server: bool = False
    """Whether every exchange is one with the same task, whatever the number of hosts: a driver."""
    trains: bool = True
    """False for a computation that is not training, such as a matrix product."""
    seconds: float
    """Duration of the training."""
    startup_s: float = 0.0
    """Seconds from the start of the run to the start of the training."""
    total_s: float = 0.0
    workers: tuple[WorkerFacts, ...]
    servers: tuple[ServerFacts, ...] = ()
    links: tuple[LinkFacts, ...] = ()
    hosts: tuple[HostFacts, ...] = ()
    machine_cores: int = 0
    """Cores of the machine that all hosts share; 0 if every host is a machine of its own."""
    background_cores: float = 0.0
    """Cores used by programs that do not belong to the run."""
    arithmetic_s: float | None = None
    """Lower bound for the arithmetic of one step, in seconds; None if the operations of the model are not known."""
    last_at_barrier: dict[str, float] = {}
    """Share of the synchronous steps in which each worker was the last one to arrive at the barrier."""
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

    def machine_is_saturated(self, host: HostFacts) -> bool:
        """Whether the cores of the host's machine were used up on average; True if that is not known."""
        if self.machine_cores:
            used = sum(each.cpu_cores for each in self.hosts) + self.background_cores
            return used >= SATURATED * self.machine_cores
        return not host.cores or host.cpu_cores + host.background_cores >= SATURATED * host.cores

    def host(self, name: str) -> HostFacts:
        return next(host for host in self.hosts if host.host == name)
