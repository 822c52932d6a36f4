"""What an engine gets to run a task: the job, the workload, the data, the recorder and the rendezvous."""

import threading
from typing import Literal, Protocol

import msgspec

from paceline.data.batches import Examples, Share
from paceline.data.dataset import PreparedData
from paceline.files.reference import FileRef
from paceline.files.store import FileStore
from paceline.plan.roles import WORKER
from paceline.ports import PortRange
from paceline.recording.recorder import Recorder
from paceline.spec.interval import Interval
from paceline.spec.optimizer import Optimizer
from paceline.spec.stop import StopRule
from paceline.workloads.model import AnyModel
from paceline.workloads.workload import Workload


class ScriptJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a task needs to know to run one rank of a user's script."""

    target: str
    """The script as the user gave it, or the name of the module."""
    is_module: bool
    path: str
    """The script on the controller's machine."""
    arguments: tuple[str, ...]
    directory: str
    """The working directory of the controller."""
    in_place: bool
    """Whether this host has that directory too, so that the script runs there and not in a copy."""
    local_rank: int
    """The number of this rank among those of its host."""
    local_ranks: int
    node: int
    """The number of its host, from 0."""
    nodes: int
    stack_hz: float = 0.0
    """How often per second its stack is sampled."""
    attempt: int = 0
    """How many times the ranks were restarted."""
    max_restarts: int = 0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment of one task: everything that the plan decided about it."""

    run: str
    task: str
    role: str
    index: int
    workers: int
    servers: int
    address: str
    """Address of this host; the task binds only to this address."""
    ports: PortRange | None = None
    """The ports on which the task may listen; None: any."""
    workload: str
    """The name that the user gave; `code` has the file if it is a file of the user's own."""
    code: tuple[FileRef, ...] = ()
    """The file of a user's own workload, and the Python files beside it."""
    size: str
    data: PreparedData
    """Without paths: the task looks for `data_files` on its host."""
    data_files: tuple[FileRef, ...] = ()
    examples: int | None
    """Number of training examples to use; None: all."""
    engine: str
    entry_point: str
    """`module:function` of the engine that does this task's work."""
    may_pass: str | None = None
    """`module:function` of the engine: whether an error may be absent in another attempt."""
    strategy: str
    synchronous: bool
    batch: int
    seed: int
    optimizer: Optimizer
    stop: tuple[StopRule, ...]
    update_limit: int | None
    updates_per_epoch: int
    eval_every: int | None
    """Updates between evaluations; None: only at the end; 0: never."""
    eval_examples: int | None
    checkpoint_every: Interval | None
    threads: int
    """Compute threads of this task; the most it may use if `tune_threads` is set."""
    trace_every: int | None
    transport: str | None
    """`memory` or `tcp`: how tasks exchange values; None if the engine offers no choice."""
    record: bool
    secrets: dict[str, str]
    """Keys of this run by purpose. They are sent only through the pipes of the agents."""
    backup: int = 0
    """Number of slowest workers that a synchronous update does not wait for."""
    restore: FileRef | None = None
    """The checkpoint to start from; None: initial values drawn from the seed."""
    first_step: int = 0
    """Number of steps that this worker has already made. Only used in asynchronous runs: in synchronous runs it equals
    the number of updates."""
    trained_s: float = 0.0
    """Seconds of training before this task started."""
    memory_bytes: int = 0
    """This task's share of the memory of its machine; 0 if that is not known."""
    options: dict[str, str] = {}
    """Options that only some engines have, such as `master`."""
    strategy_options: dict[str, int | float | str] = {}
    """Options that only some strategies have, such as `sync_every`; each has its default if the user gave no value."""
    tune_threads: bool = False
    """Whether the task may use fewer threads if it computes faster with them."""
    init: str | None = None
    activation: str | None = None
    shard: Literal["global", "worker"] = "global"
    shuffle_buffer: int | None = None
    steps_per_epoch: int | None = None
    """These as in the spec; see `Share` for the last three."""
    eval_by: str = "chief"
    histograms: bool = False
    """Whether the chief writes histograms of the parameters at each evaluation."""
    reassignable: bool = False
    """Whether this process may get a new job when its servers are lost, instead of being replaced."""
    script: ScriptJob | None = None
    """The user's script that this task runs instead of training a workload."""

    @property
    def is_chief(self) -> bool:
        return self.role == WORKER and self.index == 0

    @property
    def evaluates(self) -> bool:
        """Whether this worker evaluates the model during training."""
        return self.is_chief or (self.role == WORKER and self.eval_by == "workers" and bool(self.eval_every))

    @property
    def share(self) -> Share:
        """Which training examples this worker takes."""
        return Share(
            batch=self.batch,
            workers=self.workers,
            index=self.index,
            seed=self.seed,
            shard=self.shard,
            shuffle_buffer=self.shuffle_buffer,
            steps_per_epoch=self.steps_per_epoch,
        )


class SampledLine(msgspec.Struct, frozen=True, kw_only=True):
    """How often a line of a user's script was found in a phase, when the stack was sampled."""

    phase: str
    where: str
    """`collate, train.py:88`: the function, the file and the line."""
    samples: int
    of: int
    """All samples in that phase."""


class Outcome(msgspec.Struct, kw_only=True):
    """What a task reports when it has finished. Times are of its own monotonic clock."""

    steps: int = 0
    started_ns: int = 0
    """When the barrier opened."""
    ended_ns: int = 0
    """When the last step ended."""
    updates: int = 0
    """The global update counter as this task last saw it."""
    loss: float | None = None
    accuracy: float | None = None
    auc: float | None = None
    """Loss, accuracy and area under the ROC curve of the final evaluation; only the chief reports them."""
    metrics: dict[str, float] = {}
    """Other metrics of the final evaluation, by name."""
    value: float | None = None
    """Result of a workload that is not training; only the chief reports it."""
    dropped: int = 0
    """Steps whose gradient arrived too late for its update."""
    operations_per_cpu_s: float = 0.0
    """Measured peak speed of one thread of this worker, in operations per second of CPU time."""
    shard_sizes: dict[str, dict[str, int]] = {}
    """Server -> parameter name -> number of its values on that server; only the chief reports it."""
    sent_bytes: int | None = None
    received_bytes: int | None = None
    """Bytes that this worker exchanged with other tasks during its steps; None if its strategy does not count them."""
    exchange_steps: int | None = None
    """The number of steps in which these bytes were exchanged: those of this process, not of one that it replaces."""
    fetched_bytes: int = 0
    """Bytes of matrix blocks fetched from other tasks."""
    reached: str | None = None
    """The stop rule that ended the run; only the chief reports it."""
    reached_ns: int = 0
    reached_update: int = 0
    diverged: bool = False
    details: dict[str, str | float] = {}
    """What the engine reports about itself, such as the library that it computes with; only the chief reports it."""
    not_measured: tuple[str, ...] = ()
    """What could not be measured; only the chief reports it."""
    examples: int | None = None
    """Examples that this worker trained on, if they are not one batch per step."""
    versions: dict[str, str] = {}
    """Versions of the frameworks that a user's script has imported."""
    lines: tuple[SampledLine, ...] = ()
    """The lines of a user's script in which it was most often, by phase."""
    why_no_step: str = ""
    """What a user's script that made no step should do."""
    notes: tuple[str, ...] = ()
    """What could not be observed of a user's script, a line each."""


Peers = dict[str, dict[str, str]]
"""Task -> purpose -> address."""


class Rendezvous(Protocol):
    """How a task finds its peers and starts together with them."""

    halted: threading.Event
    """Set when the user asked the run to finish early."""

    disconnect_requested: threading.Event
    """Set when this task must close its connections to its peers, because it will get a new job."""

    def exchange_addresses(self, addresses: dict[str, str]) -> Peers:
        """Publish the addresses of this task; returns those of all tasks once all have published theirs."""
        ...

    def report_threads(self, threads: int) -> None:
        """Report that this task uses another number of compute threads than its job says."""
        ...

    def start_together(self) -> None:
        """Report that this task is ready and wait until all tasks are."""
        ...

    def wait_for_new_job(self, why: str) -> Job:
        """Report that this task has disconnected from its peers; returns its new job."""
        ...

    def attach(self, kind: str, name: str, data: bytes) -> None:
        """Store a file with the run."""
        ...


class ScriptRendezvous(Rendezvous, Protocol):
    """The rendezvous of a rank of a user's script."""

    last_step: int | None
    """The number of steps after which every rank of a user's script ends; None if it was not announced."""

    def report_ready(self) -> None:
        """Report that this task has begun to train, without waiting for the others."""
        ...

    def announce_last_step(self, step: int) -> None:
        """Have all ranks of a user's script end after this number of steps."""
        ...


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    job: Job
    workload: Workload
    model: AnyModel
    data: Examples
    recorder: Recorder
    rendezvous: Rendezvous
    files: FileStore | None = None
    """The files of this host; None in tests of tasks that need none."""
