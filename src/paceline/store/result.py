"""The result of a run as plain data. Its fields are the keys of result.json and of `--json`."""

from collections.abc import Sequence
from typing import Any, Literal, get_type_hints

import msgspec

from paceline.errors import StoreError
from paceline.spec.run_options import RunSpec
from paceline.spec.stop import target_of
from paceline.store.header_facts import stored_host_kind
from paceline.store.paths import shipped_name
from paceline.store.verdict import MemoryGrowth, Share, Verdict
from paceline.strategies.registry import strategies

Status = Literal["ok", "failed", "diverged", "aborted"]
SCHEMA = 3
"""Version of the results that this version of Paceline writes."""


class Final(msgspec.Struct, kw_only=True):
    """The final evaluation."""

    loss: float | None
    accuracy: float | None
    """None if the workload has no accuracy, such as an autoencoder."""
    auc: float | None = None
    """Area under the ROC curve, for models with two classes."""
    metrics: dict[str, float] = {}
    """Other metrics by name: top5 and perplexity if the run asks for them, and those of a workload's `evaluate`."""
    value: float | None = None
    """The result of a computation that is not training."""


class Reached(msgspec.Struct, kw_only=True):
    """The stop rule that ended the run."""

    rule: str
    at_s: float
    """Seconds of training until the rule was met."""
    at_update: int


class Staleness(msgspec.Struct, kw_only=True):
    """Number of updates that others made between the pull and the push of a step, over all steps of a worker."""

    mean: float
    p95: float
    max: int


class Exchanged(msgspec.Struct, kw_only=True):
    """Gradients, parameters and row indices that a worker exchanged with other tasks, in MB, whatever carried them."""

    sent_mb: float
    received_mb: float
    steps: int | None = None
    """The steps in which they were exchanged. A worker that was restarted, or a resumed run, does not know what was
    exchanged before. None: in all steps."""


class RunExchanged(Exchanged, kw_only=True):
    """The same of all workers together."""

    sent_mb_per_update: float
    received_mb_per_update: float
    bytes_per_example: float | None = None
    """Sent and received by all workers, divided by the training examples in these steps; None in earlier results."""


class WorkerEvaluation(msgspec.Struct, kw_only=True):
    """An evaluation on the test set by one worker, with the parameters that it had."""

    update: int
    loss: float | None
    accuracy: float | None


class CodeLine(msgspec.Struct, kw_only=True):
    """A line of a user's script in which a phase was often."""

    phase: str
    where: str
    """The function, the file and the line."""
    share: Share
    """Share of the samples in that phase."""


class WorkerResult(msgspec.Struct, kw_only=True):
    task: str
    host: str
    steps: int
    phases: dict[str, float]
    """Seconds in each phase, over the whole training."""
    staleness: Staleness | None
    dropped: int = 0
    """Steps whose gradient arrived too late for its update and was dropped (--backup)."""
    exchanged: Exchanged | None = None
    """During its steps; None if the strategy exchanges nothing or does not count, or if the worker did not finish."""
    fetched_mb: float = 0.0
    """Size of the blocks that it fetched from other tasks; 0 for training."""
    threads: int | None = None
    """Compute threads: the number that was given, or the one that the worker found to be faster."""
    last_evaluation: WorkerEvaluation | None = None
    """None if the worker evaluated nothing: usually only the chief does."""
    lines: list[CodeLine] = []
    """Of a user's script, the lines in which each phase was most often, from samples of its stack."""
    steps_before: int = 0
    """Of a resumed run, the steps that it took over from the run that it resumes."""

    @property
    def own_steps(self) -> int:
        """The steps of this run, to which its phases belong."""
        return max(0, self.steps - self.steps_before)


class Traffic(msgspec.Struct, kw_only=True):
    """Received (rx) and sent (tx) network traffic during the training."""

    rx_mb_s_mean: float = 0.0
    rx_mb_s_max: float = 0.0
    tx_mb_s_mean: float = 0.0
    tx_mb_s_max: float = 0.0
    rx_packets_s_mean: float = 0.0
    tx_packets_s_mean: float = 0.0
    rx_packets_s_max: float = 0.0
    tx_packets_s_max: float = 0.0


class Disk(msgspec.Struct, kw_only=True):
    read_mb: float = 0.0
    write_mb: float = 0.0


class Link(msgspec.Struct, kw_only=True):
    """Capacity of a host's network link in both directions."""

    tx_mb_s: float
    rx_mb_s: float
    known_from: str
    """`by --link` if the rate was given, `measured` if it was measured."""


class PairLink(msgspec.Struct, kw_only=True):
    """The link from one host to another, measured before the training."""

    sender: str = msgspec.field(name="from")
    receiver: str = msgspec.field(name="to")
    mb_s: float | None
    """Rate of one TCP connection; None if it could not be measured."""
    rtt_ms: float | None
    """Median round-trip time of small messages."""
    rtt_min_ms: float | None


class HostResult(msgspec.Struct, kw_only=True):
    host: str
    tasks: list[str]
    cpu_cores_mean: float
    """Cores used by the host's tasks, on average over the training."""
    cpu_cores_max: float
    busiest_core_max: float
    """Highest load of a core of the machine: share of the time that it was busy."""
    memory_mb_max: float
    external: Traffic
    loopback: Traffic
    disk: Disk
    scope: dict[str, str]
    """For each group of figures, what they cover: the host's tasks or the machine that hosts share."""
    link: Link | None = None
    """None if the host has no link of its own, or its capacity is not known."""
    memory_mb_mean: float = 0.0
    memory_free_mb_mean: float | None = None
    """Memory of the host's machine that programs could still get without swapping; None if it is not known."""
    memory_free_mb_min: float | None = None
    load_average_mean: float | None = None
    """Of the host's machine, over the minute before each sample; None if it is not known."""
    load_average_max: float | None = None
    clock_uncertainty_us: float = 0.0
    """By how much times of the host may be wrong on the run's clock, in either direction; phases are split no finer."""


class Incident(msgspec.Struct, kw_only=True):
    """Something that went wrong during the run, such as the loss of a task; `t_s` is on the run's clock."""

    t_s: float
    what: str
    task: str | None = None
    host: str | None = None
    at_s: float | None = None
    """Seconds of training when it happened; None before the training, and in results of older versions."""


class FaultResult(msgspec.Struct, kw_only=True):
    """A fault that was requested with --fault, and its effects."""

    what: str
    task: str | None = None
    host: str | None = None
    """The host of the task, or the host that was the target."""
    at_s: float | None = None
    """Seconds of training until the fault was injected; None if the run ended before."""
    over_s: float | None = None
    """Seconds of training until the fault was undone; None if it was not."""
    detected_s: float | None = None
    """Seconds from the fault to the first incident about its task or host."""
    restarted_s: float | None = None
    """Seconds from the fault until the tasks that it ended were working again."""
    back_at_speed_s: float | None = None
    """Seconds from the fault until the run was back at 90 % of its rate before the fault.

    It is 0 if the run never was slower, None if it did not come back to this rate.
    """
    updates_lost: int = 0
    """Updates that were lost in the return to a checkpoint and had to be repeated."""


class Result(msgspec.Struct, kw_only=True):
    """Everything that `paceline run --json` and `paceline show --json` print for a run."""

    run: str
    workload: str
    engine: str
    strategy: str
    layout: str
    batch: int
    """Examples per worker and step; 0 for a computation that is not training."""
    seed: int
    repeat: int
    status: Status
    reason: str | None
    tainted: bool
    """Whether the run went back to a checkpoint or was resumed; such runs are left out of comparisons."""
    updates: int
    """Updates in all. A resumed run includes those of the run that it resumes, here, in `examples` and in `steps`."""
    examples: int
    train_s: float
    """Seconds from the start of the training to the last update, or to the evaluation after it that ended the run."""
    total_s: float
    """Seconds from the start of the hosts until all measurements were collected."""
    first_step_s: float | None
    """Seconds from the start of the hosts until every worker had made its first step."""
    updates_per_s: float
    examples_per_s: float
    final: Final
    reached: Reached | None
    workers: list[WorkerResult]
    hosts: list[HostResult]
    verdict: Verdict
    incidents: list[Incident]
    dir: str
    hosts_kind: str
    settings: dict[str, Any]
    """The other options of the run: link, cpus, lr, threads, …"""
    size: str = ""
    """Variant of the workload; empty if it has only one."""
    transport: str | None = None
    """How tasks exchanged values: `memory` or `tcp`; None if the engine offers no choice."""
    data: str
    """The data that was used, which may be a substitute for the requested data."""
    started_at: str
    key: str
    """Equal for runs of equal specs; a repeated sweep command recognizes finished runs by it."""
    tags: tuple[str, ...] = ()
    """Words by which users find the run, as given at its start. `tags.json` in its directory has later changes."""
    other_cores_mean: float = 0.0
    """Cores of all machines that other programs used (background load), on average over the training."""
    other_cores_by_host: dict[str, float] = {}
    """The same for each host's machine; hosts that share a machine have the same number."""
    traceback: str | None = None
    """Traceback of a user's workload that failed, from the first frame in the user's code; None otherwise."""
    refused: bool = False
    """Whether the run failed before training began, because the user's own workload cannot be trained: the model or a
    function of it failed when it was tried on one batch."""
    traced_steps: int = 0
    """Traced steps; their phases are used to divide the time of fused steps into phases."""
    unrecorded_steps: int = 0
    """Steps that are part of the training but have no row in steps.parquet: their worker was killed after its gradient
    was applied and before it had recorded the step."""
    faults: list[FaultResult] = []
    """The faults that were injected with --fault."""
    time_limit_s: float | None = None
    """Seconds of training after which the run would have ended as failed; None without a limit."""
    updates_before: int = 0
    """Of a resumed run, the updates that it took over from the run that it resumes."""
    synchronous: bool = False
    """Whether every update needs a step of every worker."""
    single_worker: bool = False
    """Whether the strategy has one worker, so that the run is the baseline of runs with several workers."""
    one_machine: bool = False
    """Whether the tasks of all hosts compete for the cores of one machine."""
    examples_per_update: int = 0
    """Training examples in one update; 0 for a computation that is not training."""
    lr: float | None = None
    """Learning rate of an update, with lr_scale applied; None if nothing is trained, or if an older version trained."""
    optimizer: str | None = None
    """The optimizer, e.g. adamw:weight_decay=0.1; None if nothing is trained, or if an older version trained."""
    tokens_per_s: float | None = None
    """Tokens of training examples per second, over all workers; None if examples are not sequences."""
    model_flops_utilisation: float | None = None
    """The floating-point operations that the model needs per second, as a share of what all cores of the run's machines
    can do; None for a model of the user's, whose operations are not known, and in runs of older versions."""
    exchanged: RunExchanged | None = None
    """What the workers exchanged with other tasks; None if that is not known of every worker."""
    machine_cores: int = 0
    """Cores of all machines of the run together; 0 if no host joined, or if an older version made the run."""
    versions: dict[str, str | None] = {}
    """Versions of Python, Paceline and the framework, by name."""
    links: list[PairLink] = []
    """The links between hosts, each direction once; empty if they were not measured."""
    details: dict[str, str | float] = {}
    """What the engine reports about itself: the libraries that it computes with, times of its start, failed tasks."""
    not_measured: list[str] = []
    """What could not be measured, because it ran on machines that are not the run's own."""
    not_observed: list[str] = []
    """What could not be observed of a user's script, a line each."""
    memory_growth: list[MemoryGrowth] = []
    """The tasks whose memory grew steadily until the end of the training, the fastest growth first."""
    schema: int = SCHEMA
    """Schema version with which the result was written; `decode` fills in keys that a later version added."""

    @property
    def title(self) -> str:
        """Name of the workload, with its variant."""
        name = shipped_name(self.workload) or self.workload
        return f"{name}:{self.size}" if self.size else name

    @property
    def is_script(self) -> bool:
        """Whether it is a run of a user's own script."""
        return bool(self.settings.get("script"))

    @property
    def to_target_s(self) -> float | None:
        """Seconds of training to the requested loss or accuracy; None if another rule ended the run."""
        return self.reached.at_s if self.reached and target_of(self.reached.rule) else None


_SETTING_TYPES: dict[str, Any] = get_type_hints(RunSpec) | {"stop": Sequence[str], "fault": Sequence[str]}
_Settings = msgspec.defstruct("_Settings", [(name, _SETTING_TYPES[name], None) for name in RunSpec.__struct_fields__])
"""Checks the types of stored settings. Stop rules and faults are stored as users write them."""


def encode(result: Result) -> bytes:
    return msgspec.json.encode(result)


def decode(data: bytes, run: str) -> Result:
    """The result of a run, with the keys that its schema version lacks; StoreError if a newer version wrote it."""
    document = msgspec.json.decode(data, type=dict[str, Any])
    schema = document.get("schema", 1)
    if isinstance(schema, int) and schema > SCHEMA:
        raise StoreError(
            f"run {run} was made by a newer version of Paceline (its result has schema {schema}, this one reads up to "
            f"{SCHEMA}): update Paceline"
        )
    _check_numbers(document)
    result = msgspec.convert(document, Result)
    msgspec.convert(result.settings, _Settings)
    if result.schema < 2 and (strategy := strategies().get(result.strategy)):
        result.synchronous, result.single_worker = strategy.synchronous, strategy.single_worker
        result.one_machine = stored_host_kind(result.hosts_kind).shares_one_machine
    if result.schema < 3 and (strategy := strategies().get(result.strategy)):
        gradients = strategy.gradients_per_update(len(result.workers), result.settings.get("backup") or 0)
        result.examples_per_update = result.batch * gradients
    return result


def _check_numbers(value: Any) -> None:
    """Raise ValidationError if a whole number has more than 64 bits: computing with it would overflow."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise msgspec.ValidationError("a number has more than 64 bits")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_numbers(inner)
