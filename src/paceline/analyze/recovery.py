"""What followed from each fault that was caused: when it was noticed, when all was at work and at speed again."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from paceline.store.events import Event
from paceline.store.result import FaultResult

AT_SPEED = 0.9
"""Of the median pace before the fault: from here on a run is back at speed."""
_WINDOW_S = 1.0
_STEPS_IN_WINDOW = 20
"""Where steps are rare, a window is as long as so many of them take."""
_WINDOWS_APART = 0.1
"""As a share of a window."""
Times = np.ndarray[Any, np.dtype[np.float64]]


def recoveries(
    events: Sequence[Event], steps: pl.DataFrame, asked: Iterable[str], homes: Mapping[str, str], start_s: float
) -> list[FaultResult]:
    """One for each fault in the order they came, then those `asked` for that never came. `homes`: hosts by task."""
    begun = [event for event in events if event["event"] == "fault"]
    spans = _spans(events, begun)
    ends = np.sort((steps["t_s"] + steps["duration_s"]).filter(steps["kind"] == "step").to_numpy())
    found = [_followed(events, begun, spans, ends, number, homes, start_s) for number in range(len(begun))]
    never = list(asked)
    for event in begun:
        if event["what"] in never:
            never.remove(event["what"])
    return [*found, *(FaultResult(what=what) for what in never)]


def _followed(
    events: Sequence[Event],
    begun: Sequence[Event],
    spans: Sequence[tuple[float, float | None]],
    ends: Times,
    number: int,
    homes: Mapping[str, str],
    start_s: float,
) -> FaultResult:
    fault, (at_s, over_s) = begun[number], spans[number]
    victims = {fault["task"]} if fault.get("task") else {task for task in homes if homes[task] == fault.get("host")}
    # What comes after another fault of the same victim is that one's doing; what was lost, the last fault's.
    rival_s = min((one["t_s"] for one in begun[number + 1 :] if _same(one, fault)), default=np.inf)
    next_s = begun[number + 1]["t_s"] if number + 1 < len(begun) else np.inf
    mine = [event for event in events if at_s <= event["t_s"] < rival_s]
    detected = next((e["t_s"] for e in mine if e["event"] == "incident" and _names(e, fault, victims)), None)
    back = next((e["t_s"] for e in mine if e["event"] == "back" and victims & set(e["tasks"])), None)
    fast = _back_at_speed(ends, start_s, at_s if back is None else back, spans[:number], at_s)
    return FaultResult(
        what=fault["what"],
        task=fault.get("task"),
        host=fault.get("host"),
        at_s=_rounded(at_s, start_s),
        over_s=_rounded(over_s, start_s),
        detected_s=_rounded(detected, at_s),
        restarted_s=_rounded(back, at_s),
        back_at_speed_s=_rounded(fast, at_s),
        updates_lost=sum(e["lost"] for e in events if e["event"] == "restored" and at_s <= e["t_s"] < next_s),
    )


def _spans(events: Sequence[Event], begun: Sequence[Event]) -> list[tuple[float, float | None]]:
    """From when to when each fault was; no end if it never had one."""
    overs = [event for event in events if event["event"] == "fault-over"]
    found: list[tuple[float, float | None]] = []
    for fault in begun:
        over = next((one for one in overs if one["what"] == fault["what"] and one["t_s"] >= fault["t_s"]), None)
        if over:
            overs.remove(over)
        found.append((fault["t_s"], over["t_s"] if over else None))
    return found


def _same(one: Event, other: Event) -> bool:
    return (one.get("task"), one.get("host")) == (other.get("task"), other.get("host"))


def _names(incident: Event, fault: Event, victims: set[str]) -> bool:
    """Whether an incident is about a task that was hit, or its host as a whole, or speaks of one: `lost ps0`."""
    hit = victims | ({fault["host"]} if fault.get("host") and not fault.get("task") else set())
    if incident.get("task") in hit or not hit.isdisjoint(re.findall(r"\w+", incident["what"])):
        return True
    return incident.get("task") is None and incident.get("host") is not None and incident["host"] == fault.get("host")


def _back_at_speed(
    ends: Times, start_s: float, from_s: float, earlier: Sequence[tuple[float, float | None]], fault_s: float
) -> float | None:
    """When the first window began, from `from_s` on, in which the run went nearly as fast as before the fault."""
    before = ends[ends < fault_s]
    if len(before) < 2:
        return None
    width = max(_WINDOW_S, _STEPS_IN_WINDOW * float(before[-1] - before[0]) / len(before))
    healthy = _window_starts(start_s, fault_s, width)
    for at_s, over_s in earlier:
        undisturbed = (healthy + width <= at_s) | (healthy >= (np.inf if over_s is None else over_s))
        healthy = healthy[undisturbed] if undisturbed.any() else healthy
    if not len(healthy):
        return None
    usual = float(np.median(_counts(ends, healthy, width)))
    later = _window_starts(from_s, float(ends[-1]), width)
    fast = later[_counts(ends, later, width) >= AT_SPEED * usual]
    return float(fast[0]) if len(fast) else None


def _window_starts(from_s: float, to_s: float, width: float) -> Times:
    """Of all whole windows in a stretch of time."""
    room = to_s - width - from_s
    apart = width * _WINDOWS_APART
    count = int(room / apart) + 1 if room >= 0 else 0
    return np.linspace(from_s, from_s + (count - 1) * apart, count) if count else np.empty(0)


def _counts(ends: Times, starts: Times, width: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.searchsorted(ends, starts + width) - np.searchsorted(ends, starts)


def _rounded(moment_s: float | None, since_s: float) -> float | None:
    return None if moment_s is None else round(moment_s - since_s, 6)
