"""Effects of each injected fault: time until it was detected, until tasks were restarted, until full speed."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from paceline.store.events import Event
from paceline.store.result import FaultResult

FULL_SPEED_SHARE = 0.9
"""A run is back at full speed at this share of its median throughput before the fault."""
_WINDOW_S = 1.0
_MIN_STEPS_PER_WINDOW = 20
"""Throughput is measured over windows of _WINDOW_S, or of this many steps where steps are slow."""
_WINDOW_SPACING = 0.1
"""Distance between the starts of two windows, as a share of a window."""
Times = np.ndarray[Any, np.dtype[np.float64]]


def recoveries(
    events: Sequence[Event],
    step_ends: Callable[[], pl.Series],
    requested: Iterable[str],
    task_hosts: Mapping[str, str],
    start_s: float,
) -> list[FaultResult]:
    """One result for each fault in the order they began, then the `requested` ones that never began.

    `step_ends` returns the ends of all steps. It is called only if a fault began.
    """
    begin_events = [event for event in events if event["event"] == "fault"]
    spans = _spans(events, begin_events)
    ends = np.sort(step_ends().to_numpy()) if begin_events else np.empty(0)
    results = [
        _recovery(events, begin_events, spans, ends, number, task_hosts, start_s) for number in range(len(begin_events))
    ]
    never_began = list(requested)
    for event in begin_events:
        if event["what"] in never_began:
            never_began.remove(event["what"])
    return [*results, *(FaultResult(what=what) for what in never_began)]


def _recovery(
    events: Sequence[Event],
    begin_events: Sequence[Event],
    spans: Sequence[tuple[float, float | None]],
    ends: Times,
    number: int,
    task_hosts: Mapping[str, str],
    start_s: float,
) -> FaultResult:
    fault, (at_s, over_s) = begin_events[number], spans[number]
    on_host = {task for task, host in task_hosts.items() if host == fault.get("host")}
    victims = {fault["task"]} if fault.get("task") else on_host
    # Events after the next fault on the same target belong to that fault; lost updates belong to the latest fault.
    next_same_s = min(
        (event["t_s"] for event in begin_events[number + 1 :] if _same_target(event, fault)), default=np.inf
    )
    next_s = begin_events[number + 1]["t_s"] if number + 1 < len(begin_events) else np.inf
    own_events = [event for event in events if at_s <= event["t_s"] < next_same_s]
    detected = next((e["t_s"] for e in own_events if e["event"] == "incident" and _is_about(e, fault, victims)), None)
    restarted = next((e["t_s"] for e in own_events if e["event"] == "back" and victims & set(e["tasks"])), None)
    at_speed = _back_at_speed(ends, start_s, at_s if restarted is None else restarted, spans[:number], at_s)
    return FaultResult(
        what=fault["what"],
        task=fault.get("task"),
        host=fault.get("host"),
        at_s=_seconds_since(at_s, start_s),
        over_s=_seconds_since(over_s, start_s),
        detected_s=_seconds_since(detected, at_s),
        restarted_s=_seconds_since(restarted, at_s),
        back_at_speed_s=_seconds_since(at_speed, at_s),
        updates_lost=sum(e["lost"] for e in events if e["event"] == "restored" and at_s <= e["t_s"] < next_s),
    )


def _spans(events: Sequence[Event], begin_events: Sequence[Event]) -> list[tuple[float, float | None]]:
    """Begin and end of each fault; the end is None if the fault was never undone."""
    end_events = [event for event in events if event["event"] == "fault-over"]
    results: list[tuple[float, float | None]] = []
    for fault in begin_events:
        end_event = next(
            (event for event in end_events if event["what"] == fault["what"] and event["t_s"] >= fault["t_s"]), None
        )
        if end_event:
            end_events.remove(end_event)
        results.append((fault["t_s"], end_event["t_s"] if end_event else None))
    return results


def _same_target(event: Event, other: Event) -> bool:
    return (event.get("task"), event.get("host")) == (other.get("task"), other.get("host"))


def _is_about(incident: Event, fault: Event, victims: set[str]) -> bool:
    """Whether an incident names an affected task or its host, also inside its text (`lost ps0`)."""
    names = victims | ({fault["host"]} if fault.get("host") and not fault.get("task") else set())
    if incident.get("task") in names or not names.isdisjoint(re.findall(r"\w+", incident["what"])):
        return True
    return incident.get("task") is None and incident.get("host") is not None and incident["host"] == fault.get("host")


def _back_at_speed(
    ends: Times, start_s: float, from_s: float, earlier: Sequence[tuple[float, float | None]], fault_s: float
) -> float | None:
    """Start of the first window after `from_s` with at least FULL_SPEED_SHARE of the throughput before the fault."""
    before = ends[ends < fault_s]
    if len(before) < 2:
        return None
    width = max(_WINDOW_S, _MIN_STEPS_PER_WINDOW * float(before[-1] - before[0]) / len(before))
    healthy = _window_starts(start_s, fault_s, width)
    for at_s, over_s in earlier:
        undisturbed = (healthy + width <= at_s) | (healthy >= (np.inf if over_s is None else over_s))
        healthy = healthy[undisturbed] if undisturbed.any() else healthy
    if not len(healthy):
        return None
    normal = float(np.median(_steps_in(ends, healthy, width)))
    windows_after = _window_starts(from_s, float(ends[-1]), width)
    at_speed = windows_after[_steps_in(ends, windows_after, width) >= FULL_SPEED_SHARE * normal]
    return float(at_speed[0]) if len(at_speed) else None


def _window_starts(from_s: float, to_s: float, width: float) -> Times:
    """Starts of all windows that fit between `from_s` and `to_s`."""
    available = to_s - width - from_s
    apart = width * _WINDOW_SPACING
    count = int(available / apart) + 1 if available >= 0 else 0
    return np.linspace(from_s, from_s + (count - 1) * apart, count) if count else np.empty(0)


def _steps_in(ends: Times, starts: Times, width: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.searchsorted(ends, starts + width) - np.searchsorted(ends, starts)


def _seconds_since(moment_s: float | None, since_s: float) -> float | None:
    return None if moment_s is None else round(moment_s - since_s, 6)
