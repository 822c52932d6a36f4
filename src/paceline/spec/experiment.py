"""What the user asked, as typed values: an Experiment (fields may be lists) and its RunSpecs (none is)."""

import msgspec

from paceline.spec.fault import Fault
from paceline.spec.stop import StopRule


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run, fully decided. Two runs with equal RunSpecs are repeats of the same measurement."""

    workload: str
    size: str | None
    """Which form of the workload; None is its first."""
    examples: int | None
    """Training examples to use; None is all there are."""
    engine: str
    strategy: str
    layout: str | None
    """As asked: a name, host words, or None for the strategy's default; plan.layout resolves it."""
    batch: int
    """Examples per worker and step."""
    seed: int
    repeat: int
    """Which repetition this is, from 1."""
    stop: tuple[StopRule, ...]
    fault: tuple[Fault, ...]
    """What is to go wrong on purpose, all of it in this run."""
    eval_every: int | None
    """Updates between evaluations by the chief; None: 100 if a rule needs evaluations, else only at the end."""
    eval_examples: int | None
    """Test examples to evaluate on, from the first; None is all."""
    checkpoint_every: str | None
    """Updates between checkpoints by the chief, or a time: 500, 30s; None is only when the run is interrupted."""
    checkpoint_keep: int
    """How many checkpoints to keep, the last ones."""
    backup: int
    """Workers whose gradients an update of ps-sync need not wait for: those that come last are dropped."""
    on_failure: str | None
    """What to do about a task that dies: fail, or restart; None restarts a worker where the others go on meanwhile."""
    restarts: int
    """How often at most."""
    hosts: str
    link: str | None
    """A rate for the links of all hosts, or a word for each host; so are latency and cpus."""
    latency: str | None
    cpus: str | None
    lr: float | None
    """Learning rate; None is the workload's own."""
    momentum: float | None
    """None is the workload's own."""
    threads: int | None
    """Compute threads of a worker; None shares the machine's cores out evenly."""
    transport: str | None
    """How torch's servers and workers on one machine pass values: memory or tcp; None is memory where that works."""
    sample_hz: float
    trace_every: int | None
    """Steps between traces of engines that hide a step's phases; None is the engine's choice, 0 never."""
    record: bool
    """False leaves phases and samples out: for measuring what measuring costs."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request: every tuple but `stop` and `fault` is an axis, and the runs are the product of the axes."""

    workload: tuple[str, ...]
    size: tuple[str | None, ...] = (None,)
    examples: tuple[int | None, ...] = (None,)
    engine: tuple[str, ...] = ("torch",)
    strategy: tuple[str, ...] = ("single",)
    layout: tuple[str | None, ...] = (None,)
    batch: tuple[int, ...] = (100,)
    seed: tuple[int, ...] = (1,)
    eval_every: tuple[int | None, ...] = (None,)
    eval_examples: tuple[int | None, ...] = (None,)
    checkpoint_every: tuple[str | None, ...] = (None,)
    checkpoint_keep: tuple[int, ...] = (3,)
    backup: tuple[int, ...] = (0,)
    on_failure: tuple[str | None, ...] = (None,)
    restarts: tuple[int, ...] = (3,)
    hosts: tuple[str, ...] = ("local",)
    link: tuple[str | None, ...] = (None,)
    latency: tuple[str | None, ...] = (None,)
    cpus: tuple[str | None, ...] = (None,)
    lr: tuple[float | None, ...] = (None,)
    momentum: tuple[float | None, ...] = (None,)
    threads: tuple[int | None, ...] = (None,)
    transport: tuple[str | None, ...] = (None,)
    sample_hz: tuple[float, ...] = (10.0,)
    trace_every: tuple[int | None, ...] = (None,)
    record: tuple[bool, ...] = (True,)
    stop: tuple[StopRule, ...] = (StopRule("epochs", 1),)
    fault: tuple[Fault, ...] = ()
    repeat: int = 1
    name: str | None = None
    """Names the sweep; running the same name again finishes what is not done."""
    runs: str = "runs"


_NO_AXES = ("stop", "fault", "repeat", "name", "runs")
AXES = tuple(field for field in Experiment.__struct_fields__ if field not in _NO_AXES)

USUAL = {field.name: field.default[0] for field in msgspec.structs.fields(Experiment)[1:] if field.name in AXES}
"""What an axis is when nobody asks for anything; the workload has to be asked for."""
