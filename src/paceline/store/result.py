"""The result of a run: plain data, every field with its unit in its name. The JSON contract is this file."""

from typing import Any, Literal

import msgspec

from paceline.store.header_facts import stored_host_kind
from paceline.strategies.registry import strategies

Status = Literal["ok", "failed", "diverged", "aborted"]


class Final(msgspec.Struct, kw_only=True):
    loss: float | None
    accuracy: float | None
    """None where there is nothing to get right."""
    auc: float | None = None
    """Area under the ROC curve, of a choice between two."""
    value: float | None = None
    """What a computation came to that is not training."""


class Reached(msgspec.Struct, kw_only=True):
    rule: str
    at_s: float
    """Seconds of training until the rule held."""
    at_update: int


class Staleness(msgspec.Struct, kw_only=True):
    mean: float
    p95: float
    max: int


class WorkerResult(msgspec.Struct, kw_only=True):
    task: str
    host: str
    steps: int
    phases: dict[str, float]
    """Seconds in each phase, over the whole training."""
    staleness: Staleness | None
    dropped: int = 0
    """Steps whose gradient came too late for its update (--backup)."""
    fetched_mb: float = 0.0
    """Blocks that it had to fetch from other tasks, where nothing is trained."""


class Traffic(msgspec.Struct, kw_only=True):
    rx_mb_s_mean: float = 0.0
    rx_mb_s_max: float = 0.0
    tx_mb_s_mean: float = 0.0
    tx_mb_s_max: float = 0.0
    rx_packets_s_mean: float = 0.0
    tx_packets_s_mean: float = 0.0


class Disk(msgspec.Struct, kw_only=True):
    read_mb: float = 0.0
    write_mb: float = 0.0


class Link(msgspec.Struct, kw_only=True):
    """What a host's link can carry."""

    tx_mb_s: float
    rx_mb_s: float
    known_from: str
    """Its given rate, or a measurement."""


class HostResult(msgspec.Struct, kw_only=True):
    host: str
    tasks: list[str]
    cpu_cores_mean: float
    """Cores used by the host's tasks, on average over the training."""
    cpu_cores_max: float
    busiest_core_max: float
    """Share of its time that the busiest core of the machine was busy, at its height."""
    memory_mb_max: float
    external: Traffic
    loopback: Traffic
    disk: Disk
    scope: dict[str, str]
    """Whose figures these are, where not the host's alone."""
    link: Link | None = None
    """None where hosts have no links of their own, or nobody knows."""


class Suspect(msgspec.Struct, kw_only=True):
    """The cause that came second."""

    cause: str
    where: str
    share: float


class Verdict(msgspec.Struct, kw_only=True):
    cause: str
    where: str
    share: float
    """Of the workers' time."""
    evidence: list[str]
    remedy: list[str]
    runner_up: Suspect | None = None
    confidence: Literal["high", "medium", "low"] = "low"
    """Follows from how many steps there were, and how much of their time was recorded."""


class Incident(msgspec.Struct, kw_only=True):
    t_s: float
    what: str
    task: str | None = None
    host: str | None = None


class FaultResult(msgspec.Struct, kw_only=True):
    """A fault that was asked for, and what followed from it."""

    what: str
    task: str | None = None
    host: str | None = None
    """Of the task, or hit as a whole."""
    at_s: float | None = None
    """Seconds of training until it was caused; None if the run was over before."""
    over_s: float | None = None
    """Seconds of training until it was undone; None if it never was."""
    detected_s: float | None = None
    """From the fault to the first incident about its task or host."""
    restarted_s: float | None = None
    """From the fault until the tasks it cost were at work again."""
    back_at_speed_s: float | None = None
    """From the fault until the run went at 90 % of its pace before; 0 if it never was slower, None if never again."""
    updates_lost: int = 0
    """Updates that were made and had to be made again."""


class Result(msgspec.Struct, kw_only=True):
    run: str
    workload: str
    engine: str
    strategy: str
    layout: str
    batch: int
    """Examples per worker and step; 0 where nothing is trained."""
    seed: int
    repeat: int
    status: Status
    reason: str | None
    tainted: bool
    updates: int
    examples: int
    train_s: float
    """From the moment all workers were in until the last update, and the evaluation that made it the last."""
    total_s: float
    """From the start of the hosts until everything was collected."""
    first_step_s: float | None
    """From the start of the hosts until every worker had made its first step."""
    updates_per_s: float
    examples_per_s: float
    final: Final
    reached: Reached | None
    workers: list[WorkerResult]
    hosts: list[HostResult]
    verdict: Verdict
    incidents: list[Incident]
    dir: str
    # Added to the contract's keys:
    hosts_kind: str
    settings: dict[str, Any]
    """What else was asked for: link, cpus, lr, threads, …"""
    size: str = ""
    """Which form of the workload."""
    transport: str | None = None
    """How tasks passed values, where there is a choice: memory or tcp."""
    data: str
    """Which data was really used."""
    started_at: str
    key: str
    """Equal for runs of equal specs; a sweep finds its finished runs by it."""
    other_cores_mean: float = 0.0
    """Cores of all machines used by anything but the run's tasks, on average over the training."""
    other_cores_by_host: dict[str, float] = {}
    """The same for each host's machine; hosts that share a machine have the same number."""
    traceback: str | None = None
    """Of a user's own workload that failed: from where its code comes in."""
    traced_steps: int = 0
    """Steps from whose traces the phases of fused steps were divided."""
    faults: list[FaultResult] = []
    """What was made to go wrong, by --fault."""
    synchronous: bool = False
    """Whether one update takes a step of every worker."""
    single_worker: bool = False
    """Whether the strategy has one worker, so that this run is the baseline of those with several."""
    one_machine: bool = False
    """Whether the tasks of all hosts compete for the cores of one machine."""
    schema: int = 2
    """As written: keys that a later schema added are filled in when the result is read."""

    @property
    def title(self) -> str:
        return f"{self.workload}:{self.size}" if self.size else self.workload

    @property
    def to_target_s(self) -> float | None:
        """Seconds of training to the loss or accuracy that was asked for."""
        is_quality = self.reached and self.reached.rule.startswith(("loss", "accuracy"))
        return self.reached.at_s if self.reached and is_quality else None


def encode(result: Result) -> bytes:
    return msgspec.json.encode(result)


def decode(data: bytes) -> Result:
    result = msgspec.json.decode(data, type=Result)
    if result.schema < 2 and (strategy := strategies().get(result.strategy)):
        result.synchronous, result.single_worker = strategy.synchronous, strategy.single_worker
        result.one_machine = stored_host_kind(result.hosts_kind).shares_one_machine
    return result
