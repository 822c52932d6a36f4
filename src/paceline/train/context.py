"""What a task knows and whom it can talk to: the one value every engine is given."""

import threading
from typing import Protocol

import msgspec

from paceline.data.batches import Examples
from paceline.data.dataset import PreparedData
from paceline.recording.recorder import Recorder
from paceline.spec.interval import Interval
from paceline.spec.stop import StopRule
from paceline.workloads.model import AnyModel
from paceline.workloads.workload import Workload


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One task's orders, decided by the plan."""

    run: str
    task: str
    role: str
    index: int
    workers: int
    servers: int
    address: str
    """This host's own address: bind here and nowhere else."""
    workload: str
    size: str
    data: PreparedData
    examples: int | None
    """Training examples to use; None is all."""
    engine: str
    strategy: str
    synchronous: bool
    batch: int
    seed: int
    lr: float
    momentum: float
    stop: tuple[StopRule, ...]
    update_limit: int | None
    updates_per_epoch: int
    eval_every: int | None
    eval_examples: int | None
    checkpoint_every: Interval | None
    threads: int
    trace_every: int | None
    transport: str | None
    """How tasks pass values, where there is a choice: memory or tcp."""
    record: bool
    secrets: dict[str, str]
    """Keys made for this run, by purpose; they travel only through the agents' pipes."""
    backup: int = 0
    """Workers whose gradients a synchronous update need not wait for."""
    restore: str | None = None
    """The checkpoint to begin from; None: the seed's first values."""
    first_step: int = 0
    """This worker's steps before, where they do not follow from the updates: in an asynchronous run."""
    trained_s: float = 0.0
    """Seconds of training before this task began."""
    reassignable: bool = False
    """Whether this process may go on with other servers when its own are gone."""

    @property
    def is_chief(self) -> bool:
        return self.role == "w" and self.index == 0


class Outcome(msgspec.Struct, kw_only=True):
    """What a task says of itself when it is done. Times are of its own monotonic clock."""

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
    """Of the final evaluation, by the chief."""
    value: float | None = None
    """What a computation came to that is not training, by the chief."""
    dropped: int = 0
    """Steps whose gradient came too late for its update."""
    operations_per_cpu_s: float = 0.0
    """What one thread of a worker can calculate at best."""
    shard_sizes: dict[str, dict[str, int]] = {}
    """For each server, how many values of which parameters it holds, by the chief."""
    fetched_bytes: int = 0
    """Blocks that had to be fetched from other tasks."""
    reached: str | None = None
    """The stop rule that ended the run, by the chief."""
    reached_ns: int = 0
    reached_update: int = 0
    diverged: bool = False


Peers = dict[str, dict[str, str]]
"""Where tasks listen, by task and purpose."""


class Rendezvous(Protocol):
    """How a task finds its peers and starts with them."""

    halted: threading.Event
    """Set when the user wants the run to end early, in good order."""

    recalled: threading.Event
    """Set when this task is to let go of its peers, to be given others."""

    def meet(self, addresses: dict[str, str]) -> Peers:
        """Tell where this task listens; returns everyone's addresses, by task, once all have told."""
        ...

    def start_together(self) -> None:
        """Say this task is ready and wait until all are."""
        ...

    def regroup(self, why: str) -> Job:
        """Say that this task is stranded; returns what it is to do instead, once it is told."""
        ...

    def attach(self, kind: str, name: str, data: bytes) -> None:
        """Leave a file with the run."""
        ...


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    job: Job
    workload: Workload
    model: AnyModel
    data: Examples
    recorder: Recorder
    rendezvous: Rendezvous
