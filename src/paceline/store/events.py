"""The types of the events in events.jsonl that the analysis uses, and functions to parse and append events.

Events without a type here are read as a dict.
"""

from pathlib import Path
from typing import Any, ClassVar

import msgspec

from paceline.messages import DECODE_ERRORS
from paceline.store.paths import append_whole
from paceline.store.regular_file import read_regular
from paceline.train.context import SampledLine

Event = dict[str, Any]
_MAX_BYTES = 256 * 2**20
"""More than any run writes. A larger file is damaged, and reading it could use up the memory."""


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every line of events.jsonl. A line may have more fields than those declared."""

    name: ClassVar[str] = ""
    event: str
    t_s: float
    """Seconds on the run's clock, which is 0 at the start of the run."""


class JoinedEvent(StoredEvent, frozen=True, kw_only=True):
    """The agent of a host connected and reported the resources of the host."""

    name: ClassVar[str] = "joined"
    host: str
    network: str
    """`host` if the host has a network of its own, `machine` if it shares the machine's."""
    cores: int
    memory_bytes: int
    versions: dict[str, str | None] = {}
    free_disk_bytes: int | None = None
    clock_uncertainty_ns: int = 0
    """By how much times of the host may be wrong on the run's clock, in either direction."""


class ClockEvent(StoredEvent, frozen=True, kw_only=True):
    """The clock of a host was measured again, and is known less precisely than before."""

    name: ClassVar[str] = "clock"
    host: str
    clock_uncertainty_ns: int


class AssignedEvent(StoredEvent, frozen=True, kw_only=True):
    """A task received its number of compute threads, or has chosen another one by measurement."""

    name: ClassVar[str] = "assigned"
    task: str
    threads: int


class LinkEvent(StoredEvent, frozen=True, kw_only=True):
    """The capacity of a host's link was measured."""

    name: ClassVar[str] = "link"
    host: str
    tx_mb_s: float
    rx_mb_s: float


class MeasuredLink(msgspec.Struct, frozen=True, kw_only=True):
    """The link from one host to another."""

    sender: str
    receiver: str
    mb_s: float | None = None
    rtt_s: float | None = None
    """Median round-trip time."""
    rtt_min_s: float | None = None


class LinksEvent(StoredEvent, frozen=True, kw_only=True):
    """The links between the hosts were measured, for this run or an earlier one with the same hosts."""

    name: ClassVar[str] = "links"
    pairs: tuple[MeasuredLink, ...]
    measured_at: float
    """Seconds since 1970."""


class FinishedEvent(StoredEvent, frozen=True, kw_only=True):
    """A task finished its part of the training. Times are on the run's clock."""

    name: ClassVar[str] = "finished"
    task: str
    steps: int
    updates: int
    started_s: float | None
    ended_s: float | None
    reached_s: float | None
    reached: str | None = None
    """The stop rule that ended the run."""
    reached_update: int = 0
    loss: float | None = None
    accuracy: float | None = None
    auc: float | None = None
    metrics: dict[str, float] = {}
    value: float | None = None
    """The result of a computation that is not training."""
    dropped: int = 0
    operations_per_cpu_s: float = 0.0
    sent_bytes: int | None = None
    received_bytes: int | None = None
    exchange_steps: int | None = None
    """The number of steps in which these bytes were exchanged; None: in all steps of the task."""
    fetched_bytes: int = 0
    shard_sizes: dict[str, dict[str, int]] = {}
    """For each parameter server, the number of values that it stores of each parameter."""
    details: dict[str, str | float] = {}
    """What the engine reports about itself."""
    not_measured: tuple[str, ...] = ()
    examples: int | None = None
    """Examples that the task trained on, if they are not one batch per step."""
    versions: dict[str, str] = {}
    """Versions of the frameworks that a user's script has imported."""
    lines: tuple[SampledLine, ...] = ()
    """The lines of a user's script in which it was most often, by phase."""
    notes: tuple[str, ...] = ()
    """What could not be observed of a user's script."""


class IncidentEvent(StoredEvent, frozen=True, kw_only=True):
    """Something went wrong, such as the loss of a task."""

    name: ClassVar[str] = "incident"
    what: str
    task: str | None = None
    host: str | None = None


class EndedEvent(StoredEvent, frozen=True, kw_only=True):
    """The run ended with this status."""

    name: ClassVar[str] = "ended"
    status: str
    reason: str | None
    refused: bool = False
    """Whether the user's own workload was found to be wrong before training began."""


class TablesEvent(StoredEvent, frozen=True, kw_only=True):
    """The tables of the run were written."""

    name: ClassVar[str] = "tables"
    sha256: dict[str, str]
    """The checksum of each table, by file name."""


_TYPES: dict[str, type[StoredEvent]] = {
    event_type.name: event_type
    for event_type in (
        JoinedEvent,
        AssignedEvent,
        LinkEvent,
        LinksEvent,
        FinishedEvent,
        IncidentEvent,
        EndedEvent,
        TablesEvent,
    )
}
_RENAMED = {"homes": "shard_sizes"}
"""Field names of earlier versions and the names that replaced them."""


def parse_event(line: bytes) -> Event | None:
    """The event of a line, with the current names of its fields; None if the line is incomplete or damaged."""
    try:
        event = {_RENAMED.get(name, name): value for name, value in msgspec.json.decode(line, type=Event).items()}
        msgspec.convert(event, _TYPES.get(str(event.get("event")), StoredEvent))
    except DECODE_ERRORS:
        return None
    return event


def read_lines(events: Path) -> list[bytes]:
    """The lines of an event file; the last is empty unless it is incomplete."""
    return read_regular(events, _MAX_BYTES).split(b"\n")


def append_event(events: Path, name: str, **fields: Any) -> None:
    """Append an event to a run that has ended, with the time of its last event."""
    lines = read_lines(events) if events.exists() else [b""]
    t_s = next((event["t_s"] for line in reversed(lines) if (event := parse_event(line))), 0.0)
    # An incomplete last line gets a line end, so that it does not damage the new event.
    line_end = b"\n" if lines[-1] else b""
    with events.open("ab", buffering=0) as file:
        append_whole(file, line_end + msgspec.json.encode({"t_s": t_s, "event": name, **fields}) + b"\n")
