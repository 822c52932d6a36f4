"""A strict reader of Chrome's Trace Event Format, as Perfetto imports it.

The rules are those of the format's specification: the required fields of each type of event and their types, metadata
events with known names, scopes of instant events, and slices of a thread that nest and never overlap otherwise.
"""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

_METADATA = {
    "process_name": ("name", str), "process_sort_index": ("sort_index", int), "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}  # fmt: skip
_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "dur": (int, float), "args": dict},
    "C": {"name": str, "pid": int, "tid": int, "ts": (int, float), "args": dict},
    "i": {"name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "s": str},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}


def read_trace(path: Path) -> dict[str, Any]:
    """The trace in a file; AssertionError if it is not valid."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    trace: dict[str, Any] = json.loads(text, parse_constant=refuse)
    assert trace.keys() <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    assert all(isinstance(value, str) or value is None for value in trace["otherData"].values())
    for event in trace["traceEvents"]:
        _check_event(event)
    _check_names(trace["traceEvents"])
    _check_nesting(trace["traceEvents"])
    return trace


def _check_event(event: dict[str, Any]) -> None:
    fields = _FIELDS[event["ph"]]
    assert event.keys() == fields.keys() | {"ph"}, event
    for name, type_ in fields.items():
        assert isinstance(event[name], type_), event
        assert not isinstance(event[name], bool), event
    assert event["pid"] > 0, "process 0 is the idle process"
    assert event.get("ts", 0) >= 0, event
    assert event.get("dur", 0) >= 0, event
    if event["ph"] == "M":
        argument, type_ = _METADATA[event["name"]]
        assert isinstance(event["args"].pop(argument), type_)
        assert not event["args"]
    if event["ph"] == "C":
        assert event["args"]
        assert all(type(value) in (int, float) for value in event["args"].values()), event
    if event["ph"] == "i":
        assert event["s"] in ("g", "p", "t")


def _check_names(events: list[dict[str, Any]]) -> None:
    """Every process and thread with events has exactly one name."""
    processes = [event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"]
    threads = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(set(processes)) == len(processes)
    assert len(set(threads)) == len(threads)
    assert {event["pid"] for event in events} == set(processes)
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X" and e["cat"] != "stage"} <= set(threads)


def _check_nesting(events: list[dict[str, Any]]) -> None:
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            # Whole nanoseconds, which is what importers compute with.
            start, duration = round(event["ts"] * 1000), round(event["dur"] * 1000)
            slices[event["pid"], event["tid"]].append((start, -duration, event["name"]))
    for thread, found in slices.items():
        open_ends: list[int] = []
        for start, negative, name in sorted(found):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or start - negative <= open_ends[-1], f"{name} overlaps on {thread}"
            open_ends.append(start - negative)
