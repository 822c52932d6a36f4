"""Faults in the report of a run: marked in what is drawn over time, and in a table."""

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from paceline.report.build import build, draw
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


def figures(paths: RunPaths) -> dict[str, Chart]:
    (run,) = draw(build("made", [paths]), [paths]).runs
    return {figure.key: figure for figure in run.figures}


def test_figures_over_time_have_a_band_and_a_line(disturbed: RunPaths) -> None:
    drawn = figures(disturbed)
    for key in ("pace", "hosts", "shares", "timeline"):
        layout = drawn[key].views[0].layout
        kinds = {shape["type"]: shape for shape in layout["shapes"] if shape.get("layer") == "below"}
        assert (kinds["rect"]["x0"], kinds["rect"]["x1"]) == pytest.approx((1.0, 2.0))
        assert kinds["line"]["x0"] == kinds["line"]["x1"] == pytest.approx(2.5)
        assert {FREEZE, KILL} <= {note["text"] for note in layout["annotations"]}
        assert "Purple marks" in drawn[key].reading
        for view in drawn[key].views:
            go.Figure(data=view.traces, layout=view.layout)


def test_the_steps_around_a_fault_can_be_looked_at(disturbed: RunPaths) -> None:
    views = {view.name: view.layout["xaxis"]["range"] for view in figures(disturbed)["timeline"].views}
    start, end = views[KILL]
    assert start < 2.5 < end


def test_the_table_has_what_followed(disturbed: RunPaths) -> None:
    (sheet,) = [sheet for sheet in build("made", [disturbed]).sheets if sheet.name == "Faults caused"]
    rows = [dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows]
    assert [row["fault"].text for row in rows] == [FREEZE, KILL]
    assert rows[0]["at s"].value == pytest.approx(1.0)
    assert rows[0]["until s"].value == pytest.approx(2.0)
    assert rows[1]["noticed after s"].value == pytest.approx(0.25)
    assert rows[1]["until s"].text == "-"


def test_the_verdict_is_told_as_that_of_a_disturbed_run(disturbed: RunPaths, runs: Path) -> None:
    (found,) = build("made", [disturbed]).bottlenecks
    assert [line.partition(": ")[2] for line in found.disturbed] == [FREEZE, KILL]
    assert build("made", [store_run(runs, fault=[KILL])]).bottlenecks[0].disturbed == []


def test_a_fault_that_never_came_is_said_so_and_drawn_nowhere(runs: Path) -> None:
    paths = store_run(runs, fault=[KILL])
    (sheet,) = [sheet for sheet in build("made", [paths]).sheets if sheet.name == "Faults caused"]
    assert [cell.text for cell in sheet.rows[0]][1:3] == [KILL, "never came"]
    assert "shapes" not in figures(paths)["pace"].views[0].layout


def test_a_run_without_faults_has_no_table_of_them(runs: Path) -> None:
    assert "Faults caused" not in [sheet.name for sheet in build("made", [store_run(runs)]).sheets]
