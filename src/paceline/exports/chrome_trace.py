"""A run as a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open.

Every host is a process of the trace, every task a thread of it: steps with their phases, and the busy times of servers.
Counters of the host, incidents and faults are beside them. Times are those of the run's clock, in microseconds.
"""

import gzip
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from paceline.analyze.timeline import host_rates
from paceline.analyze.training import END_S, training_start_s
from paceline.errors import printable
from paceline.store.paths import writing_whole
from paceline.store.result import FaultResult, Result
from paceline.store.run import StoredRun

TraceEvent = dict[str, Any]
Period = tuple[float, float]
"""First and last second of training that are exported."""
WHOLE_RUN: Period = (-math.inf, math.inf)
_RUN_PROCESS = 1
"""The process for what belongs to no host: the stages of the run."""
_STEP = "step"
_FIRST_LANE, _FIRST_FAULT = 100_000, 200_000
"""Numbers of threads that are not those of tasks."""
_COUNTERS = {
    "cores used": "cpu_cores",
    "memory (MB)": "memory_mb",
    "received (MB/s)": "external_rx_mb_s",
    "sent (MB/s)": "external_tx_mb_s",
    "loopback received (MB/s)": "loopback_rx_mb_s",
    "loopback sent (MB/s)": "loopback_tx_mb_s",
    "disk read (MB/s)": "disk_read_mb_s",
    "disk written (MB/s)": "disk_write_mb_s",
}
"""Name in the trace -> column of `host_rates`."""


def write_trace(run: StoredRun, result: Result, target: Path, period: Period = WHOLE_RUN) -> None:
    """Write the trace of a run; it is compressed if the name of the file ends with .gz."""
    with writing_whole(target) as file:
        if target.suffix == ".gz":
            with gzip.open(file, "wt", encoding="utf-8", compresslevel=5) as compressed:
                _write(trace_events(run, result, period), result, compressed)
        else:
            text = _Encoded(file)
            _write(trace_events(run, result, period), result, text)  # type: ignore[arg-type]


class _Encoded:
    """Writes text to a file of bytes."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> None:
        self._file.write(text.encode())


def _write(events: Iterable[TraceEvent], result: Result, file: TextIO) -> None:
    about: dict[str, Any] = {
        "run": result.run,
        "workload": result.title,
        "engine": result.engine,
        "strategy": result.strategy,
    }
    about |= {"layout": result.layout, "bottleneck": result.verdict.cause, "paceline": result.versions.get("paceline")}
    file.write('{"displayTimeUnit": "ms", "otherData": ' + json.dumps(_printable(about)) + ', "traceEvents": [\n')
    for number, event in enumerate(events):
        file.write((",\n" if number else "") + json.dumps(event, allow_nan=False))
    file.write("\n]}\n")


def trace_events(run: StoredRun, result: Result, period: Period = WHOLE_RUN) -> Iterator[TraceEvent]:
    """The events of the trace. The steps are read in parts, so a long run does not need much memory."""
    start_s = training_start_s(run)
    first_s, last_s = start_s + period[0], start_s + period[1]
    tracks = _Tracks(run)
    yield from tracks.names()
    yield from _stages(result, start_s)
    for part in run.step_parts():
        inside = part.filter((first_s <= END_S) & (pl.col("t_s") <= last_s)).sort("task", "t_s", -pl.col("duration_s"))
        yield from _slices(inside, tracks)
    samples = run.samples.filter(pl.col("t_s").is_between(first_s, last_s))
    yield from _counters(samples, tracks)
    yield from _incidents(result, tracks, first_s, last_s)
    for number, fault in enumerate(result.faults):
        yield from _fault(fault, number, tracks, start_s)
    # A thread for overlapping slices is named when the first of them was found.
    yield from tracks.late_names()


class _Tracks:
    """The process of each host and the thread of each task. Numbers of threads are unique in the whole trace."""

    def __init__(self, run: StoredRun) -> None:
        self._places = run.header.places
        hosts = dict.fromkeys([place.host for place in self._places] + run.samples["host"].unique().sort().to_list())
        self.processes = {host: number for number, host in enumerate(hosts, _RUN_PROCESS + 1)}
        self._threads = {place.task: number for number, place in enumerate(self._places, 1)}
        self._task_hosts = {place.task: place.host for place in self._places}
        self._lanes: dict[tuple[str, int], int] = {}

    def process(self, host: str | None) -> int:
        return self.processes.get(host or "", _RUN_PROCESS)

    def of_task(self, task: str, host: str) -> tuple[int, int]:
        """Process and thread of a task."""
        thread = self._threads.setdefault(task, len(self._threads) + 1)
        self._task_hosts.setdefault(task, host)
        return self.process(self._task_hosts[task]), thread

    def lane(self, task: str, host: str, number: int) -> tuple[int, int]:
        """The thread of a task; lanes after the first are for slices that overlap others in part."""
        process, thread = self.of_task(task, host)
        if number:
            thread = self._lanes.setdefault((task, number), _FIRST_LANE + len(self._lanes))
        return process, thread

    def names(self) -> Iterator[TraceEvent]:
        yield from _process_name(_RUN_PROCESS, "run", 0)
        for host, process in self.processes.items():
            tasks = [place.task for place in self._places if place.host == host]
            yield from _process_name(process, f"{host} ({', '.join(tasks)})" if tasks else host, process)
        for task, thread in self._threads.items():
            yield _metadata("thread_name", self.process(self._task_hosts[task]), thread, name=task)
            yield _metadata("thread_sort_index", self.process(self._task_hosts[task]), thread, sort_index=thread)

    def late_names(self) -> Iterator[TraceEvent]:
        for (task, _), thread in self._lanes.items():
            name = f"{task}, at the same time"
            yield _metadata("thread_name", self.process(self._task_hosts[task]), thread, name=name)


def _process_name(process: int, name: str, order: int) -> Iterator[TraceEvent]:
    yield _metadata("process_name", process, 0, name=name)
    yield _metadata("process_sort_index", process, 0, sort_index=order)


def _metadata(what: str, process: int, thread: int, **arguments: Any) -> TraceEvent:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": _printable(arguments)}


def _stages(result: Result, start_s: float) -> Iterator[TraceEvent]:
    ends = (("startup", 0.0, start_s), ("training", start_s, start_s + result.train_s))
    for name, begin_s, end_s in ends:
        if end_s > begin_s:
            yield _slice(name, "stage", (_RUN_PROCESS, 0), begin_s, end_s - begin_s)


def _slices(rows: pl.DataFrame, tracks: _Tracks) -> Iterator[TraceEvent]:
    """The slices of some steps, ordered by task and start; longer ones first, so that a step contains its phases."""
    task, lanes = "", list[list[int]]()
    for row in rows.iter_rows(named=True):
        if row["task"] != task:
            task, lanes = row["task"], []
        start, end = _ns(row["t_s"]), _ns(row["t_s"] + row["duration_s"])
        track = tracks.lane(task, row["host"], _lane_of(lanes, start, end))
        yield _slice(_name(row), row["kind"], track, row["t_s"], row["duration_s"], **_arguments(row))


def _lane_of(lanes: list[list[int]], start: int, end: int) -> int:
    """The first lane in which the slice is beside or inside of all others; `lanes` has the ends of open slices."""
    for number, open_ends in enumerate(lanes):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if not open_ends or end <= open_ends[-1]:
            open_ends.append(end)
            return number
    lanes.append([end])
    return len(lanes) - 1


def _name(row: dict[str, Any]) -> str:
    return f"step {row['step']}" if row["kind"] == _STEP else str(row["kind"])


def _arguments(row: dict[str, Any]) -> dict[str, Any]:
    """What is known of a step or an evaluation; of a phase, the number of its step."""
    shown = {"step": row["step"]}
    if row["kind"] in (_STEP, "eval"):
        shown |= {name: row[name] for name in ("update", "loss", "accuracy")}
        shown |= {"staleness": row["staleness"]} if row["staleness"] >= 0 else {}
    shown |= {name: True for name in ("traced", "undone") if row[name]}
    return {name: value for name, value in shown.items() if value is not None and value == value}


def _slice(
    name: str, category: str, track: tuple[int, int], start_s: float, duration_s: float, **arguments: Any
) -> TraceEvent:
    process, thread = track
    start, end = _ns(start_s), _ns(start_s + duration_s)
    event = {"ph": "X", "name": printable(name), "cat": category, "pid": process, "tid": thread}
    return event | {"ts": start / 1000, "dur": (end - start) / 1000, "args": arguments}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _counters(samples: pl.DataFrame, tracks: _Tracks) -> Iterator[TraceEvent]:
    for row in host_rates(samples).iter_rows(named=True):
        for name, column in _COUNTERS.items():
            if row[column] is not None and math.isfinite(row[column]):
                yield {
                    "ph": "C",
                    "name": name,
                    "pid": tracks.process(row["host"]),
                    "tid": 0,
                    "ts": _ns(row["t_s"]) / 1000,
                    "args": {"value": round(row[column], 4)},
                }


def _incidents(result: Result, tracks: _Tracks, first_s: float, last_s: float) -> Iterator[TraceEvent]:
    for incident in result.incidents:
        if first_s <= incident.t_s <= last_s:
            process, thread = tracks.of_task(incident.task, incident.host or "") if incident.task else (0, 0)
            process = process or tracks.process(incident.host)
            scope = "t" if incident.task else "p" if incident.host else "g"
            yield {
                "ph": "i",
                "name": printable(incident.what),
                "cat": "incident",
                "pid": process,
                "tid": thread,
                "ts": _ns(incident.t_s) / 1000,
                "s": scope,
            }


def _fault(fault: FaultResult, number: int, tracks: _Tracks, start_s: float) -> Iterator[TraceEvent]:
    """A fault has a thread of its own, because faults may overlap in any way."""
    if fault.at_s is None:
        return
    track = (tracks.process(fault.host), _FIRST_FAULT + number)
    yield _metadata("thread_name", *track, name=f"fault {number + 1}")
    duration_s = fault.over_s - fault.at_s if fault.over_s is not None else 0.0
    known = {name: getattr(fault, name) for name in ("detected_s", "restarted_s", "back_at_speed_s")}
    arguments = {name: value for name, value in known.items() if value is not None}
    yield _slice(fault.what, "fault", track, start_s + fault.at_s, max(duration_s, 0.0), **arguments)


def _printable(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
