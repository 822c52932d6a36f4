"""The types of the events in events.jsonl that the analysis uses, and functions to parse and append events.

Events without a type here are read as a dict.
"""

from pathlib import Path
from typing import Any, ClassVar

import msgspec

from paceline.messages import DECODE_ERRORS
from paceline.store.paths import append_whole

Event = dict[str, Any]


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


class AssignedEvent(StoredEvent, frozen=True, kw_only=True):
    """A task received its number of compute threads."""

    name: ClassVar[str] = "assigned"
    task: str
    threads: int


class LinkEvent(StoredEvent, frozen=True, kw_only=True):
    """The capacity of a host's link was measured."""

    name: ClassVar[str] = "link"
    host: str
    tx_mb_s: float
    rx_mb_s: float


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
    value: float | None = None
    """The result of a computation that is not training."""
    dropped: int = 0
    operations_per_cpu_s: float = 0.0
    fetched_bytes: int = 0
    shard_sizes: dict[str, dict[str, int]] = {}
    """For each parameter server, the number of values that it stores of each parameter."""


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


class TablesEvent(StoredEvent, frozen=True, kw_only=True):
    """The tables of the run were written."""

    name: ClassVar[str] = "tables"
    sha256: dict[str, str]
    """The checksum of each table, by file name."""


_TYPES: dict[str, type[StoredEvent]] = {
    event_type.name: event_type
    for event_type in (JoinedEvent, AssignedEvent, LinkEvent, FinishedEvent, IncidentEvent, EndedEvent, TablesEvent)
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


def append_event(events: Path, name: str, **fields: Any) -> None:
    """Append an event to a run that has ended, with the time of its last event."""
    with events.open("a+b", buffering=0) as file:
        file.seek(0)
        lines = file.readall().split(b"\n")
        t_s = next((event["t_s"] for line in reversed(lines) if (event := parse_event(line))), 0.0)
        # An incomplete last line gets a line end, so that it does not damage the new event.
        line_end = b"\n" if lines[-1] else b""
        append_whole(file, line_end + msgspec.json.encode({"t_s": t_s, "event": name, **fields}) + b"\n")
