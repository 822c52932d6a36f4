"""Stored runs without a training: made through the real store, from records and samples of a given shape."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from paceline import pipeline
from paceline.analyze.summary import summarize
from paceline.data.dataset import PreparedData
from paceline.messages import HostSample, LinkCount
from paceline.messages.agent import TaskSample
from paceline.recording.layout import STEP_PHASES, RecordKind
from paceline.recording.rows import RECORD_DTYPE
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint
from paceline.store.journal import ClockOffset, HostSamples, TaskAdded, TaskRecords
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun
from paceline.store.writer import RunWriter

START_S = 2.0
SECONDS = {RecordKind.DATA: 0.0002, RecordKind.PULL: 0.002, RecordKind.COMPUTE: 0.006, RecordKind.PUSH: 0.001}
"""What the phases of a step take; every step is as long."""
STEP_S = 0.01
RECORDS_PER_STEP = len(SECONDS) + 1
EVAL_EVERY = 100


def store_run(
    runs: Path,
    *,
    name: str = "made",
    steps: int = 300,
    end: tuple[str, str | None] | None = ("ok", None),
    incident: str | None = None,
    events: Sequence[dict[str, Any]] = (),
    data: str = "made up",
    pace: float = 1.0,
    sample_hz: float = 10.0,
    late_ns: Mapping[str, int] = MappingProxyType({}),
    clock_uncertainty_ns: int = 0,
    task_samples: bool = False,
    resumed_update: int = 0,
    **fields: Any,
) -> RunPaths:
    """A finished run of `steps` steps a worker; with no `end` one whose controller was killed.

    With `task_samples`, each task used half a core, so that the run can be used to predict others.
    A run that resumes one of `resumed_update` updates counts them, too; its strategy is synchronous.
    All workers begin each phase at the same time, but those of the hosts in `late_ns` that much later.
    """
    fields = {"workload": "logreg", "strategy": "ps-async", "layout": "pw w", "stop": ["steps=1000"], **fields}
    (plan,) = pipeline.plan(experiment(fields))
    writer = RunWriter(runs, name, plan)
    ready = PreparedData(paths=(), source=data, synthetic=True)
    start = ResumePoint(run="earlier", update=resumed_update) if resumed_update else ResumePoint()
    header = pipeline.header_of(plan, ready, start, clock_zero_ns=writer.clock_zero_ns)
    writer.write_header(msgspec.structs.replace(header, key="key", started_at="2026-01-02T03:04:05+00:00"))
    hosts = dict.fromkeys(place.host for place in plan.places)
    for host in hosts:
        writer.event(
            "joined", t_s=0.1, host=host, cores=4, memory_bytes=8_000_000_000, network="host",
            clock_uncertainty_ns=clock_uncertainty_ns,
        )  # fmt: skip
        writer.add(ClockOffset(host, late_ns.get(host, 0), clock_uncertainty_ns))
    writer.event("go", t_s=START_S)
    length = STEP_S / pace
    for index, place in enumerate(plan.workers):
        writer.add(TaskAdded(place.task, place.host))
        for data_ in _records(steps, length, chief=index == 0, workers=len(plan.workers)):
            writer.add(TaskRecords(place.task, data_))
    ended_s = START_S + steps * length
    for number, host in enumerate(hosts):
        tasks = [place.task for place in plan.places if place.host == host and task_samples]
        writer.add(HostSamples(host, make_samples(ended_s, sample_hz, number, tasks) if steps else []))
    if incident:
        writer.event("incident", t_s=START_S + 0.5, what=incident, task="w0", host="h1")
    for event in events:
        writer.event(**{"name": event["event"], **event})
    if end:
        for place in plan.workers if steps and end[0] == "ok" else ():
            updates = steps if plan.strategy.synchronous else steps * len(plan.workers)
            outcome = _outcome(resumed_update + steps, resumed_update + updates, ended_s)
            writer.event("finished", t_s=ended_s, task=place.task, **outcome)
        writer.event("ended", t_s=ended_s, status=end[0], reason=end[1])
    writer.close()
    if end:
        stored = StoredRun(writer.paths)
        stored.write_result(summarize(stored))
    writer.release()
    return writer.paths


def leave_killed_run(runs: Path, *, steps: int, chunk: int = 2_000, **fields: Any) -> RunPaths:
    """A run whose controller was killed: only its journal and its events are there, as a real one leaves them.

    `chunk` is the number of records that an agent sends at once.
    """
    (plan,) = pipeline.plan(experiment({"workload": "logreg", "stop": ["steps=1000"], **fields}))
    writer = RunWriter(runs, "killed", plan)
    ready = PreparedData(paths=(), source="made up", synthetic=True)
    writer.write_header(pipeline.header_of(plan, ready, ResumePoint(), clock_zero_ns=writer.clock_zero_ns))
    hosts = list(dict.fromkeys(place.host for place in plan.places))
    for host in hosts:
        writer.event("joined", host=host, cores=4, memory_bytes=8_000_000_000, network="host")
        writer.add(ClockOffset(host, 0, 0))
    writer.event("go", t_s=START_S)
    for place in plan.workers:
        writer.add(TaskAdded(place.task, place.host))
    length = STEP_S / 10
    pieces = [_records(steps, length, chief=index == 0, workers=2, chunk=chunk) for index in range(len(plan.workers))]
    for data in zip(*pieces, strict=True):
        for place, records in zip(plan.workers, data, strict=True):
            writer.add(TaskRecords(place.task, records))
    for number, host in enumerate(hosts):
        samples = make_samples(START_S + steps * length, 10.0, number)
        for first in range(0, len(samples), 10):
            writer.add(HostSamples(host, samples[first : first + 10]))
    writer.release()  # Without `close`, which would make the tables.
    return writer.paths


def result_of(paths: RunPaths) -> Result:
    result = StoredRun(paths).result
    assert result
    return result


def _outcome(steps: int, updates: int, ended_s: float) -> dict[str, Any]:
    return {
        "steps": steps, "updates": updates, "started_s": START_S, "ended_s": ended_s, "loss": 0.25, "accuracy": 0.925,
        "auc": None, "value": None, "reached": "loss=0.3", "reached_s": ended_s, "reached_update": steps,
        "fetched_bytes": 0,
    }  # fmt: skip


def _records(steps: int, length: float, *, chief: bool, workers: int, chunk: int = 500_000) -> Iterator[bytes]:
    for first in range(0, steps, chunk):
        yield make_records(np.arange(first, min(first + chunk, steps)), length, chief=chief, workers=workers)


def make_records(numbers: "np.ndarray[Any, Any]", length: float, *, chief: bool, workers: int) -> bytes:
    records = np.zeros(len(numbers), RECORD_DTYPE)
    begun = ((START_S + numbers * length) * 1e9).astype(np.uint64)
    offset = 0
    for kind, seconds in SECONDS.items():
        lasted = int(seconds * length / STEP_S * 1e9)
        if kind is RecordKind.DATA:
            records["data_end_ns"] = begun + lasted
        else:
            times = records["phases"][:, STEP_PHASES.index(kind)]
            times[:, 0], times[:, 1] = begun + offset, begun + offset + lasted
        offset += lasted
    records["kind"], records["start_ns"], records["end_ns"] = RecordKind.STEP, begun, begun + int(length * 1e9)
    records["step"], records["update"] = numbers, (numbers + 1) * workers
    records["staleness"] = numbers % workers
    records["loss"] = 2.0 / np.sqrt(1 + numbers)
    if chief:
        tests = records[EVAL_EVERY - 1 :: EVAL_EVERY].copy()
        tests["kind"], tests["end_ns"] = RecordKind.EVAL, tests["start_ns"] + 1000
        tests["accuracy"], tests["phases"], tests["data_end_ns"] = 1 - tests["loss"] / 2, 0, 0
        # Not np.concatenate: it drops the padding of a structured dtype.
        return records.tobytes() + tests.tobytes()
    return records.tobytes()


def make_samples(end_s: float, hz: float, number: int, tasks: Sequence[str] = ()) -> list[HostSample]:
    return [
        HostSample(
            t_ns=int(i / hz * 1e9),
            cpu_s=0.75 * i / hz,
            cores_busy_s=[0.5 * i / hz] * 4,
            memory_bytes=300_000_000 + number,
            external=LinkCount(rx_bytes=int(5e6 * i / hz), tx_bytes=int(3e6 * i / hz)),
            loopback=LinkCount(rx_bytes=int(2e6 * i / hz), tx_bytes=int(2e6 * i / hz)),
            disk_read_bytes=int(1e6 * i / hz),
            disk_write_bytes=i,
            tasks=[TaskSample(task, 0.5 * i / hz, 200_000_000, 2) for task in tasks],
        )
        for i in range(int(end_s * hz) + 1)
    ]
