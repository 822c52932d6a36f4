"""Traces of stored runs are valid, and contain every step of every task."""

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from contracts.golden import STORED_RUNS
from exports.trace_schema import read_trace
from paceline.analyze.load import load_result
from paceline.exports.chrome_trace import WHOLE_RUN, Period, write_trace
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun

RUNS = [*sorted(STORED_RUNS.iterdir()), *sorted((STORED_RUNS.parents[1] / "store" / "runs").iterdir())]


def trace_of(directory: Path, target: Path, period: Period = WHOLE_RUN) -> list[dict[str, Any]]:
    paths = RunPaths(directory)
    write_trace(StoredRun(paths), load_result(paths), target, period)
    events: list[dict[str, Any]] = read_trace(target)["traceEvents"]
    return events


@pytest.mark.parametrize("directory", RUNS, ids=lambda path: path.name)
def test_trace_is_valid_and_has_every_row(directory: Path, tmp_path: Path) -> None:
    events = trace_of(directory, tmp_path / "trace.json")
    steps = StoredRun(RunPaths(directory)).steps
    slices = Counter(event["cat"] for event in events if event["ph"] == "X")
    assert {kind: slices[kind] for kind in steps["kind"].unique()} == dict(steps.group_by("kind").len().iter_rows())


def test_times_and_values_are_those_of_the_run(tmp_path: Path) -> None:
    events = trace_of(STORED_RUNS / "modes-2", tmp_path / "trace.json")
    row = StoredRun(RunPaths(STORED_RUNS / "modes-2")).steps.filter(kind="step", task="w1", step=3).row(0, named=True)
    (event,) = (e for e in events if e["name"] == "step 3" and e["ts"] == pytest.approx(row["t_s"] * 1e6, abs=0.01))
    assert event["dur"] == pytest.approx(row["duration_s"] * 1e6, abs=0.01)
    assert event["args"]["loss"] == pytest.approx(row["loss"])
    assert event["args"]["update"] == row["update"]


def test_hosts_have_counters_and_faults_are_shown(tmp_path: Path) -> None:
    events = trace_of(STORED_RUNS / "faulty-1", tmp_path / "trace.json")
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"cores used", "memory (MB)", "received (MB/s)"} <= counters
    assert [event["name"] for event in events if event.get("cat") == "fault"] == ["kill w1 at 0s"]
    assert any("was killed" in event["name"] for event in events if event["ph"] == "i")


def test_part_of_the_training_can_be_written_and_compressed(tmp_path: Path) -> None:
    whole = trace_of(STORED_RUNS / "faulty-1", tmp_path / "trace.json")
    part = trace_of(STORED_RUNS / "faulty-1", tmp_path / "trace.json.gz", (1.0, 2.0))
    assert 0 < sum(e["ph"] == "X" for e in part) < sum(e["ph"] == "X" for e in whole)
    assert (tmp_path / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_slices_that_overlap_are_on_a_thread_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = StoredRun(RunPaths(STORED_RUNS / "modes-2"))
    longer = pl.when(kind="compute").then(pl.col("duration_s") * 3).otherwise(pl.col("duration_s"))
    changed = copy.copy(run.steps).with_columns(duration_s=longer)
    monkeypatch.setattr(StoredRun, "steps", changed)
    events = trace_of(STORED_RUNS / "modes-2", tmp_path / "trace.json")
    assert sum(event["ph"] == "X" and event["tid"] >= 100_000 for event in events) > 10


def test_validator_refuses_overlapping_slices(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    track = '"ph": "X", "cat": "step", "pid": 1, "tid": 1, "args": {}'
    names = '{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "a"}},'
    names += '{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "b"}},'
    both = f'{{{track}, "name": "a", "ts": 0, "dur": 5}}, {{{track}, "name": "b", "ts": 3, "dur": 5}}'
    file.write_text(f'{{"displayTimeUnit": "ms", "otherData": {{}}, "traceEvents": [{names}{both}]}}')
    with pytest.raises(AssertionError, match="overlaps"):
        read_trace(file)
