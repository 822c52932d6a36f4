"""The header of a run: the first line of events.jsonl, which holds its configuration. It never changes afterwards."""

from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.errors import SpecError, StoreError
from paceline.messages import DECODE_ERRORS
from paceline.plan.layout import TaskPlace
from paceline.plan.limits import HostLimits
from paceline.plan.roles import WORKER
from paceline.spec.fault import Fault
from paceline.spec.run_options import RunSpec
from paceline.spec.stop import StopRule
from paceline.store.header_facts import StoredEngine, StoredHostKind
from paceline.store.header_upgrade import VERSION, upgrade_header
from paceline.strategies.descriptor import Strategy

EVENT = "created"


class ResumePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where training continues. The default is the beginning of training."""

    checkpoint: str | None = None
    update: int = 0
    steps: dict[str, int] = {}
    """Steps of each worker that are included in the checkpoint."""
    trained_s: float = 0.0
    run: str | None = None
    """Id of the run that is continued; None for a restart inside the same run."""
    faults: tuple[str, ...] = ()
    """Faults that were injected in the runs that this one continues, as users write them. They do not happen again."""
    damaged: tuple[str, ...] = ()
    """Newer checkpoints that could not be used, each as a line that says why."""


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a run and the hosts of its tasks.

    Facts about the strategy, the engine and the hosts are stored with their names, so that a run can be analyzed where
    they are not installed.
    """

    version: int = VERSION
    spec: RunSpec
    key: str = ""
    """Equal for runs of equal specs."""
    size: str = ""
    """Variant of the workload; empty if it has only one."""
    layout: str
    """One word per host, such as `pw w`; never the name of a layout."""
    places: tuple[TaskPlace, ...]
    strategy: Strategy
    alternatives: tuple[Strategy, ...] = ()
    """The counterparts of the strategy that the engine and the workload support; remedies suggest them."""
    engine: StoredEngine
    host_kind: StoredHostKind
    transport: str | None = None
    """How tasks exchange values: `memory` or `tcp`; None if the engine offers no choice."""
    trains: bool = True
    """False for a computation that is not training and has no examples."""
    limits: Mapping[str, HostLimits] = {}
    """Link and CPU limits by host."""
    operations_per_example: int | None = None
    """Floating-point operations of a training step for one example; None for a model of the user."""
    tokens_per_example: int | None = None
    """The number of tokens of an example, if examples are sequences."""
    lr: float | None = None
    """Learning rate of an update, with --set lr_scale applied; None if nothing is trained, or if the run is older."""
    optimizer: str | None = None
    """The optimizer, e.g. adamw:weight_decay=0.1; None if nothing is trained, or if the run is older."""
    update_limit: int | None = None
    """The update at which the stop rules end the run at the latest; None if they do not limit updates."""
    data: str = "?"
    """Which data was used."""
    resumed: ResumePoint | None = None
    """The point from which it continues another run; None if it starts at the beginning."""
    started_at: str = "?"
    """Wall-clock time, ISO 8601."""
    versions: Mapping[str, str | None] = {}
    """Versions of Paceline and of the framework, by name."""
    clock_zero_ns: int = 0
    """The controller's clock at the run's time 0."""

    @property
    def worker_hosts(self) -> dict[str, str]:
        """The host of each worker."""
        return {place.task: place.host for place in self.places if place.role == WORKER}

    @property
    def task_hosts(self) -> dict[str, str]:
        """The host of each task."""
        return {place.task: place.host for place in self.places}


def spec_fields(spec: RunSpec) -> dict[str, Any]:
    """A spec as it is stored: stop rules and faults in the form that users write."""
    fields: dict[str, Any] = msgspec.to_builtins(spec)
    rules, faults = [str(rule) for rule in spec.stop], [str(fault) for fault in spec.fault]
    return fields | {"stop": rules, "fault": faults, "script": list(spec.script), "tag": list(spec.tag)}


def header_fields(header: RunHeader) -> dict[str, Any]:
    """The fields of the event that stores a header."""
    fields: dict[str, Any] = msgspec.to_builtins(header)
    return fields | {"spec": spec_fields(header.spec)}


def read_header(run: str, event: Mapping[str, Any] | None) -> RunHeader:
    """The header in the event `created`, upgraded if an older version wrote it; StoreError if it cannot be read."""
    if event is None:
        raise StoreError(
            f"run {run} has no header, the first line of events.jsonl: restore that file or delete the run"
        )
    version = event.get("version", 0)
    if isinstance(version, int) and version > VERSION:
        raise StoreError(
            f"run {run} was made by a newer version of Paceline (its header has version {version}, "
            f"this one reads up to {VERSION}): update Paceline"
        )
    try:
        fields = upgrade_header(event)
        return msgspec.convert({**fields, "spec": _spec(fields["spec"])}, RunHeader)
    except (SpecError, AttributeError, LookupError, TypeError, *DECODE_ERRORS) as error:
        raise StoreError(
            f"run {run} has an unreadable header ({error}): restore its events.jsonl, or delete the run"
        ) from None


def _spec(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The stored spec with its stop rules and faults parsed, ready for conversion to RunSpec.

    RunSpec has defaults for the options that did not exist when the run was made.
    """
    return {
        **fields,
        "stop": [msgspec.to_builtins(StopRule.parse(text)) for text in fields.get("stop", ())],
        "fault": [msgspec.to_builtins(Fault.parse(text)) for text in fields.get("fault", ())],
    }
