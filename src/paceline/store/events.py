"""The lines of a run's diary as its readers rely on them."""

from pathlib import Path
from typing import Any

import msgspec

from paceline.messages import UNREADABLE
from paceline.store.paths import append_whole

Event = dict[str, Any]


class _Any(msgspec.Struct):
    event: str
    t_s: float


class _Place(msgspec.Struct):
    task: str
    role: str
    host: str


class _Created(_Any):
    spec: dict[str, Any] = {}
    places: list[_Place] = []
    limits: dict[str, dict[str, Any]] = {}


class _Joined(_Any):
    host: str
    network: str
    cores: int
    memory_bytes: int


class _Assigned(_Any):
    task: str
    threads: int


class _Link(_Any):
    host: str
    tx_mb_s: float
    rx_mb_s: float


class _Finished(_Any):
    task: str
    steps: int
    updates: int
    started_s: float | None
    ended_s: float | None
    reached_s: float | None
    fetched_bytes: int = 0
    homes: dict[str, dict[str, int]] = {}


class _Incident(_Any):
    what: str


class _Ended(_Any):
    status: str
    reason: str | None


class _Tables(_Any):
    sha256: dict[str, str]


_FORMS: dict[str, type[_Any]] = {
    "created": _Created,
    "joined": _Joined,
    "assigned": _Assigned,
    "link": _Link,
    "finished": _Finished,
    "incident": _Incident,
    "ended": _Ended,
    "tables": _Tables,
}
"""What there must be of the events that figures are made from; there may be more."""


def well_formed(line: bytes) -> Event | None:
    """The event of a line; None if it is torn or is not what was once written there."""
    try:
        found = msgspec.json.decode(line, type=Event)
        msgspec.convert(found, _FORMS.get(str(found.get("event")), _Any))
    except UNREADABLE:
        return None
    return found


def add_later(events: Path, name: str, **fields: Any) -> None:
    """A line in the diary of a run that is over."""
    with events.open("a+b", buffering=0) as file:
        file.seek(0)
        lines = file.readall().split(b"\n")
        t_s = next((event["t_s"] for line in reversed(lines) if (event := well_formed(line))), 0.0)
        after_torn = b"\n" if lines[-1] else b""
        append_whole(file, after_torn + msgspec.json.encode({"t_s": t_s, "event": name, **fields}) + b"\n")
