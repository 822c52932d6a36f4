"""Injected faults in the report of a run: marks in the charts over time, and a table."""

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from paceline.report.build import build, build_charts
from paceline.report.chart import Chart
from paceline.store.paths import RunPaths
from report.stored import START_S, store_run

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


def charts(paths: RunPaths) -> dict[str, Chart]:
    (run,) = build_charts(build("made", [paths]), [paths]).runs
    return {chart.key: chart for chart in run.charts}


def test_charts_over_time_mark_faults_with_a_band_or_a_line(disturbed: RunPaths) -> None:
    drawn = charts(disturbed)
    for key in ("throughput", "hosts", "shares", "timeline"):
        layout = drawn[key].views[0].layout
        kinds = {shape["type"]: shape for shape in layout["shapes"] if shape.get("layer") == "below"}
        assert (kinds["rect"]["x0"], kinds["rect"]["x1"]) == pytest.approx((1.0, 2.0))
        assert kinds["line"]["x0"] == kinds["line"]["x1"] == pytest.approx(2.5)
        assert {FREEZE, KILL} <= {note["text"] for note in layout["annotations"]}
        assert "Purple marks: injected faults." in drawn[key].caption
        for view in drawn[key].views:
            go.Figure(data=view.traces, layout=view.layout)


def test_the_step_timeline_has_a_view_around_each_fault(disturbed: RunPaths) -> None:
    views = {view.name: view.layout["xaxis"]["range"] for view in charts(disturbed)["timeline"].views}
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
    assert "shapes" not in charts(paths)["throughput"].views[0].layout


def test_a_run_without_faults_has_no_fault_table(runs: Path) -> None:
    assert "Injected faults" not in [table.name for table in build("made", [store_run(runs)]).tables]
