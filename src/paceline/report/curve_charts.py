"""Charts of loss, accuracy and throughput over the course of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from paceline.analyze.timeline import downsampled, steps_per_second
from paceline.report.chart import Chart, Layout, Trace, View, axes, colour, dash, packed
from paceline.report.fault_marks import about_faults, mark_faults
from paceline.report.html import label
from paceline.report.run_data import RunData

_POINTS_PER_RUN = 4_000
_PACE_BINS = 150
_LOG_FROM = 50
_COLUMNS = {"updates": "update", "examples": "examples", "seconds": "seconds"}
_AXES = {"updates": "updates", "examples": "examples", "seconds": "seconds of training"}


class TestCurve:
    """What the chief's evaluations said, and where in the run they were."""

    def __init__(self, run: RunData) -> None:
        tests = run.curves.filter(pl.col("kind") == "eval")
        self.at = {by: tests[column].to_numpy() for by, column in _COLUMNS.items()}
        self.loss = tests["loss"].to_numpy()
        self.percent = tests["accuracy"].cast(pl.Float64).fill_null(float("nan")).to_numpy() * 100
        self.accurate = bool(np.isfinite(self.percent).any())

    def traces(self, by: str, name: str, style: dict[str, Any]) -> list[Trace]:
        base: Trace = {"type": "scatter", "mode": "lines+markers", "x": packed(self.at[by]), "name": name}
        base |= {"line": {"width": 2, **style}, "marker": {"size": 5}, "legendgroup": name}
        found = [{**base, "y": packed(self.loss, "f4")}] if len(self.loss) else []
        if self.accurate:
            found.append({**base, "y": packed(self.percent, "f4"), "yaxis": "y2", "showlegend": False})
        return found


def quality(run: RunData) -> Chart | None:
    """Training loss of every worker, test loss and accuracy by the chief."""
    losses = _thinned(run.curves.filter((pl.col("kind") == "step") & pl.col("loss").is_finite()))
    tests = TestCurve(run)
    if not losses and not len(tests.loss):
        return None
    every = np.concatenate([tests.loss, *(mine["loss"].to_numpy() for mine in losses.values())])
    views = []
    for by in _AXES:
        traces = [_training(task, mine, by, n) for n, (task, mine) in enumerate(losses.items())]
        traces += tests.traces(by, "test", {"color": colour(0)})
        views.append(View(by, traces, _layout(every, by, tests.accurate)))
    return Chart(
        key="quality",
        title="Loss and accuracy",
        reading=(
            "Lower loss and higher accuracy are better. Lines of workers are the loss of their training batches, "
            "thinned out so that extremes stay; the line with marks is the test set."
        ),
        views=views,
        height=480 if tests.accurate else 360,
    )


def together(curves: Sequence[tuple[str, TestCurve]]) -> Chart | None:
    """Test loss and accuracy of several runs in one figure."""
    shown = [(title, curve) for title, curve in curves if len(curve.loss) > 1]
    if len(shown) < 2:
        return None
    accurate = any(curve.accurate for _, curve in shown)
    every = np.concatenate([curve.loss for _, curve in shown])
    views = []
    for by in ("seconds", "updates", "examples"):
        traces = []
        for number, (title, curve) in enumerate(shown):
            traces += curve.traces(by, label(title), {"color": colour(number), "dash": dash(number)})
        views.append(View(by, traces, _layout(every, by, accurate)))
    return Chart(
        key="together",
        title="Test loss and accuracy of the runs shown",
        reading=(
            "One line a run: the further left it reaches a low loss or a high accuracy, the better; by seconds that is "
            "speed, by examples what each example was worth."
        ),
        views=views,
        height=560 if accurate else 400,
    )


def updates_per_second(run: RunData) -> Chart | None:
    steps = run.steps.filter(pl.col("kind") == "step")
    if len(steps) < 2:
        return None
    bins = max(1, min(_PACE_BINS, len(steps) // 20))
    table = steps_per_second(steps, start_s=run.start_s, bins=bins)
    # All workers of a synchronous run make the same updates.
    workers = table["task"].n_unique() if run.synchronous else 1
    whole = table.group_by("t_s").agg(pl.col("steps_per_s").sum() / workers).sort("t_s")
    traces = [_pace_trace("updates, all workers", whole, {"color": colour(0), "width": 3})]
    tasks = table["task"].unique(maintain_order=True).to_list()
    if len(tasks) > 1:
        for number, task in enumerate(tasks):
            style = {"color": colour(number + 1), "dash": dash(number + 1), "width": 1.5}
            traces.append(_pace_trace(f"steps of {task}", table.filter(pl.col("task") == task), style))
    layout = axes(["per second"], "seconds of training")
    layout["yaxis"]["rangemode"] = "tozero"
    mark_faults(layout, run.result)
    return Chart(
        key="pace",
        title="Updates per second over time",
        reading=f"Mean of each of {bins} stretches of the training; dips are where something held the run up."
        + about_faults(run.result),
        views=[View("", traces, layout)],
    )


def _pace_trace(name: str, table: pl.DataFrame, line: dict[str, Any]) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines" if len(table) > 1 else "markers",
        "name": label(name),
        "x": packed(table["t_s"].to_numpy()),
        "y": packed(table["steps_per_s"].to_numpy(), "f4"),
        "line": line,
        "hovertemplate": "%{y:.4s}/s at %{x:.3f} s",
    }


def _thinned(losses: pl.DataFrame) -> dict[str, pl.DataFrame]:
    count = max(1, losses["task"].n_unique())
    found = {}
    for (task,), mine in losses.group_by("task", maintain_order=True):
        found[str(task)] = mine[downsampled(mine["loss"].to_numpy(), max(100, _POINTS_PER_RUN // count))]
    return dict(sorted(found.items()))


def _training(task: str, losses: pl.DataFrame, by: str, number: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{label(task)} training",
        "x": packed(losses[_COLUMNS[by]].to_numpy()),
        "y": packed(losses["loss"].to_numpy(), "f4"),
        "line": {"color": colour(number + 1), "dash": dash(number + 1), "width": 1},
        "opacity": 0.75,
    }


def _layout(losses: "np.ndarray[Any, Any]", by: str, accurate: bool) -> Layout:
    layout = axes(["loss", "accuracy %"] if accurate else ["loss"], _AXES[by])
    known = losses[np.isfinite(losses) & (losses > 0)]
    if len(known) and known.max() > _LOG_FROM * known.min():
        layout["yaxis"]["type"] = "log"
    return layout
