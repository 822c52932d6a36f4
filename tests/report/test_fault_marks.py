"""Injected faults in the report of a run: marks in the charts over time, and a table."""

from pathlib import Path
from typing import Any

import pytest

from paceline.page.blocks import Block
from paceline.report.build import build
from paceline.report.page import run_blocks
from paceline.report.run_data import RunData
from paceline.store.paths import RunPaths
from report.stored import START_S, result_of, store_run

FREEZE, KILL = "freeze h2 for 1s at 1s", "kill w1 at step 400"


@pytest.fixture
def disturbed(runs: Path) -> RunPaths:
    events: list[dict[str, Any]] = [
        {"event": "fault", "t_s": START_S + 1, "what": FREEZE, "task": None, "host": "h2"},
        {"event": "fault-over", "t_s": START_S + 2, "what": FREEZE, "task": None, "host": "h2"},
        {"event": "fault", "t_s": START_S + 2.5, "what": KILL, "task": "w1", "host": "h2"},
        {"event": "incident", "t_s": START_S + 2.75, "what": "w1 on h2 was killed", "task": "w1", "host": "h2"},
    ]
    return store_run(runs, steps=400, events=events, fault=[FREEZE, KILL], end=("failed", "w1 was killed"))


def charts(paths: RunPaths) -> dict[str, Any]:
    blocks: list[Block] = run_blocks(RunData(result_of(paths), paths))
    return {getattr(block, "key", ""): block for block in blocks}


def test_charts_over_time_mark_faults_and_incidents(disturbed: RunPaths) -> None:
    drawn = charts(disturbed)
    for key in ("throughput", "hosts", "shares", "timeline", "quality"):
        freeze, kill, incident = drawn[key].marks
        assert (freeze.kind, freeze.text) == ("fault", FREEZE)
        assert (freeze.at, freeze.until) == pytest.approx((1.0, 2.0))
        assert (kill.text, kill.until) == (KILL, None)
        assert kill.at == pytest.approx(2.5)
        assert (incident.kind, incident.text) == ("incident", "w1 on h2 was killed")


def test_the_step_timeline_has_a_view_around_each_fault(disturbed: RunPaths) -> None:
    views = {view.name: (view.start, view.end) for view in charts(disturbed)["timeline"].views}
    start, end = views[KILL]
    assert start < 2.5 < end


def test_the_table_has_the_recovery_times(disturbed: RunPaths) -> None:
    (table,) = [table for table in build("made", [disturbed]).tables if table.name == "Injected faults"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["fault"].text for row in rows] == [FREEZE, KILL]
    assert rows[0]["at (s)"].value == pytest.approx(1.0)
    assert rows[0]["until (s)"].value == pytest.approx(2.0)
    assert rows[1]["detected (s)"].value == pytest.approx(0.25)
    assert rows[1]["until (s)"].text == "-"


def test_the_bottleneck_lists_the_injected_faults(disturbed: RunPaths, runs: Path) -> None:
    (found,) = build("made", [disturbed]).bottlenecks
    assert [line.partition(": ")[2] for line in found.faults] == [FREEZE, KILL]
    assert build("made", [store_run(runs, fault=[KILL])]).bottlenecks[0].faults == []


def test_a_fault_that_did_not_occur_is_in_the_table_but_not_marked(runs: Path) -> None:
    paths = store_run(runs, fault=[KILL])
    (table,) = [table for table in build("made", [paths]).tables if table.name == "Injected faults"]
    assert [cell.text for cell in table.rows[0]][1:3] == [KILL, "did not occur"]
    assert charts(paths)["throughput"].marks == []


def test_a_run_without_faults_has_no_fault_table(runs: Path) -> None:
    assert "Injected faults" not in [table.name for table in build("made", [store_run(runs)]).tables]
