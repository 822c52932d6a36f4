"""Charts of loss, accuracy and throughput over the training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from paceline.analyze.timeline import downsampled, steps_per_second
from paceline.report.chart import Chart, Layout, Trace, View, encoded, line_colour, line_dash, stacked_axes
from paceline.report.fault_marks import faults_caption, mark_faults
from paceline.report.html import chart_text
from paceline.report.run_data import RunData

_POINTS_PER_RUN = 4_000
"""Points of training loss in the page, over all workers: more cannot be seen and make the page slow."""
_THROUGHPUT_BINS = 150
_LOG_FROM = 50
"""The loss axis is logarithmic if the largest loss is more than this many times the smallest."""
_COLUMNS = {"updates": "update", "examples": "examples", "seconds": "seconds"}
_AXES = {"updates": "updates", "examples": "examples", "seconds": "training time (s)"}


class TestCurve:
    """Loss and accuracy on the test set, from the evaluations by the chief."""

    def __init__(self, run: RunData) -> None:
        evaluations = run.curves.filter((pl.col("kind") == "eval") & (pl.col("task") == run.result.workers[0].task))
        self.positions = {by: evaluations[column].to_numpy() for by, column in _COLUMNS.items()}
        self.loss = evaluations["loss"].to_numpy()
        self.accuracy_percent = evaluations["accuracy"].cast(pl.Float64).fill_null(float("nan")).to_numpy() * 100
        self.has_accuracy = bool(np.isfinite(self.accuracy_percent).any())

    def traces(self, by: str, name: str, style: dict[str, Any]) -> list[Trace]:
        base: Trace = {"type": "scatter", "mode": "lines+markers", "x": encoded(self.positions[by]), "name": name}
        base |= {"line": {"width": 2, **style}, "marker": {"size": 5}, "legendgroup": name}
        traces = [{**base, "y": encoded(self.loss, "f4")}] if len(self.loss) else []
        if self.has_accuracy:
            traces.append({**base, "y": encoded(self.accuracy_percent, "f4"), "yaxis": "y2", "showlegend": False})
        return traces


def quality(run: RunData) -> Chart | None:
    """Training loss of every worker; test loss and accuracy."""
    losses = _downsampled_losses(run.curves.filter((pl.col("kind") == "step") & pl.col("loss").is_finite()))
    test_curve = TestCurve(run)
    if not losses and not len(test_curve.loss):
        return None
    all_losses = np.concatenate([test_curve.loss, *(table["loss"].to_numpy() for table in losses.values())])
    views = []
    for by in _AXES:
        traces = [_training_loss(task, table, by, n) for n, (task, table) in enumerate(losses.items())]
        traces += test_curve.traces(by, "test set", {"color": line_colour(0)})
        views.append(View(by, traces, _layout(all_losses, by, test_curve.has_accuracy)))
    return Chart(
        key="quality",
        title="Loss and accuracy",
        caption=(
            "Lower loss and higher accuracy are better. Thin lines: loss of each worker's training batches, "
            "downsampled so that minima and maxima are kept. Line with markers: test set."
        ),
        views=views,
        height=480 if test_curve.has_accuracy else 360,
    )


def test_curves_of_runs(curves: Sequence[tuple[str, TestCurve]]) -> Chart | None:
    """Test loss and accuracy of several runs in one chart; `curves` are titles and curves."""
    shown = [(title, curve) for title, curve in curves if len(curve.loss) > 1]
    if len(shown) < 2:
        return None
    has_accuracy = any(curve.has_accuracy for _, curve in shown)
    all_losses = np.concatenate([curve.loss for _, curve in shown])
    views = []
    for by in ("seconds", "updates", "examples"):
        traces = []
        for number, (title, curve) in enumerate(shown):
            traces += curve.traces(by, chart_text(title), {"color": line_colour(number), "dash": line_dash(number)})
        views.append(View(by, traces, _layout(all_losses, by, has_accuracy)))
    return Chart(
        key="test-curves",
        title="Test loss and accuracy by run",
        caption=(
            "One line per run; a line further to the left is better. Over seconds it shows speed, over examples it "
            "shows how much was learned from each example."
        ),
        views=views,
        height=560 if has_accuracy else 400,
    )


def updates_per_second(run: RunData) -> Chart | None:
    steps = run.steps.filter(pl.col("kind") == "step")
    if len(steps) < 2:
        return None
    bins = max(1, min(_THROUGHPUT_BINS, len(steps) // 20))
    table = steps_per_second(steps, start_s=run.start_s, bins=bins)
    # A synchronous update is one step of every worker.
    workers = table["task"].n_unique() if run.synchronous else 1
    total = table.group_by("t_s").agg(pl.col("steps_per_s").sum() / workers).sort("t_s")
    traces = [_rate_trace("updates, all workers", total, {"color": line_colour(0), "width": 3})]
    tasks = table["task"].unique(maintain_order=True).to_list()
    if len(tasks) > 1:
        for number, task in enumerate(tasks):
            style = {"color": line_colour(number + 1), "dash": line_dash(number + 1), "width": 1.5}
            traces.append(_rate_trace(f"steps of {task}", table.filter(pl.col("task") == task), style))
    layout = stacked_axes(["per second"], "training time (s)")
    layout["yaxis"]["rangemode"] = "tozero"
    mark_faults(layout, run.result)
    return Chart(
        key="throughput",
        title="Throughput over time",
        caption=f"Mean in each of {bins} equal time intervals; the training was delayed where the lines dip."
        + faults_caption(run.result),
        views=[View("", traces, layout)],
    )


def _rate_trace(name: str, table: pl.DataFrame, line: dict[str, Any]) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines" if len(table) > 1 else "markers",
        "name": chart_text(name),
        "x": encoded(table["t_s"].to_numpy()),
        "y": encoded(table["steps_per_s"].to_numpy(), "f4"),
        "line": line,
        "hovertemplate": "%{y:.4s}/s at %{x:.3f} s",
    }


def _downsampled_losses(losses: pl.DataFrame) -> dict[str, pl.DataFrame]:
    count = max(1, losses["task"].n_unique())
    by_task = {}
    for (task,), table in losses.group_by("task", maintain_order=True):
        by_task[str(task)] = table[downsampled(table["loss"].to_numpy(), max(100, _POINTS_PER_RUN // count))]
    return dict(sorted(by_task.items()))


def _training_loss(task: str, losses: pl.DataFrame, by: str, number: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{chart_text(task)} training batches",
        "x": encoded(losses[_COLUMNS[by]].to_numpy()),
        "y": encoded(losses["loss"].to_numpy(), "f4"),
        "line": {"color": line_colour(number + 1), "dash": line_dash(number + 1), "width": 1},
        "opacity": 0.75,
    }


def _layout(losses: "np.ndarray[Any, Any]", by: str, has_accuracy: bool) -> Layout:
    layout = stacked_axes(["loss", "accuracy (%)"] if has_accuracy else ["loss"], _AXES[by])
    positive = losses[np.isfinite(losses) & (losses > 0)]
    if len(positive) and positive.max() > _LOG_FROM * positive.min():
        layout["yaxis"]["type"] = "log"
    return layout
