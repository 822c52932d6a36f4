"""Charts of loss, accuracy and throughput over the training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from paceline.analyze.timeline import downsampled, steps_per_second
from paceline.page.blocks import Line, Lines, LineView, Panel, compact
from paceline.report.fault_marks import marks_of
from paceline.report.run_data import RunData

_POINTS_PER_RUN = 1_600
"""Points of training loss in the page, over all workers: more cannot be seen and make the page large."""
_EVALUATIONS = 300
_THROUGHPUT_BINS = 150
_LOG_FROM = 50
"""The loss axis is logarithmic if the largest loss is more than this many times the smallest."""
_COLUMNS = {"updates": "update", "examples": "examples", "seconds": "seconds"}
_AXES = {"updates": "updates", "examples": "examples", "seconds": "training time (s)"}
OVER_TIME = _AXES["seconds"]


class TestCurve:
    """Loss and accuracy on the test set, from the evaluations by the chief."""

    def __init__(self, run: RunData) -> None:
        evaluations = run.curves.filter((pl.col("kind") == "eval") & (pl.col("task") == run.result.workers[0].task))
        evaluations = evaluations.gather_every(-(-len(evaluations) // _EVALUATIONS) or 1)
        self.positions = {by: compact(evaluations[column], 7) for by, column in _COLUMNS.items()}
        self.loss = evaluations["loss"].to_numpy()
        self.accuracy_percent = evaluations["accuracy"].cast(pl.Float64).fill_null(float("nan")).to_numpy() * 100
        self.has_accuracy = bool(np.isfinite(self.accuracy_percent).any())

    def loss_line(self, by: str, name: str, number: int) -> list[Line]:
        return [self._line(by, name, self.loss, number)] if len(self.loss) else []

    def accuracy_line(self, by: str, name: str, number: int) -> list[Line]:
        return [self._line(by, name, self.accuracy_percent, number)] if self.has_accuracy else []

    def _line(self, by: str, name: str, values: "np.ndarray[Any, Any]", number: int) -> Line:
        xs = [x or 0.0 for x in self.positions[by]]
        return Line(name=name, x=xs, y=compact(values), colour=number, dashed=number >= 8, points=len(values) < 60)


def quality(run: RunData) -> Lines | None:
    """Training loss of every worker; test loss and accuracy."""
    losses = _downsampled_losses(run.curves.filter((pl.col("kind") == "step") & pl.col("loss").is_finite()))
    test = TestCurve(run)
    if not losses and not len(test.loss):
        return None
    all_losses = np.concatenate([test.loss, *(table["loss"].to_numpy() for table in losses.values())])
    views = []
    for by, title in _AXES.items():
        lines = [_training_loss(task, table, by, n) for n, (task, table) in enumerate(losses.items())]
        lines += test.loss_line(by, "test set", 0)
        panels = [Panel(title="loss", lines=lines, log=_is_wide(all_losses))]
        panels += [Panel(title="accuracy (%)", lines=test.accuracy_line(by, "test set", 0))] * test.has_accuracy
        views.append(LineView(name=by, x_title=title, panels=panels))
    return Lines(
        key="quality",
        title="Loss and accuracy",
        caption=(
            "Lower loss and higher accuracy are better. Thin lines: loss of each worker's training batches, "
            "downsampled so that minima and maxima are kept. Thick line: test set. Drag to zoom in, double-click "
            "to zoom out."
        ),
        views=views,
        marks=marks_of(run.result, run.start_s),
    )


def test_curves_of_runs(curves: Sequence[tuple[str, TestCurve]]) -> Lines | None:
    """Test loss and accuracy of several runs in one chart; `curves` are titles and curves."""
    shown = [(title, curve) for title, curve in curves if len(curve.loss) > 1]
    if len(shown) < 2:
        return None
    all_losses = np.concatenate([curve.loss for _, curve in shown])
    views = []
    for by in ("seconds", "updates", "examples"):
        losses = [line for n, (title, curve) in enumerate(shown) for line in curve.loss_line(by, title, n)]
        accuracies = [line for n, (title, curve) in enumerate(shown) for line in curve.accuracy_line(by, title, n)]
        panels = [Panel(title="test loss", lines=losses, log=_is_wide(all_losses))]
        panels += [Panel(title="accuracy (%)", lines=accuracies)] if accuracies else []
        views.append(LineView(name=by, x_title=_AXES[by], panels=panels))
    return Lines(
        key="test-curves",
        title="Test loss and accuracy by run",
        caption=(
            "One line per run; a line further to the left is better. Over seconds it shows speed, over examples it "
            "shows how much was learned from each example."
        ),
        views=views,
    )


def updates_per_second(run: RunData) -> Lines | None:
    steps = run.steps.filter(pl.col("kind") == "step")
    if len(steps) < 2:
        return None
    bins = max(1, min(_THROUGHPUT_BINS, len(steps) // 20))
    table = steps_per_second(steps, start_s=run.start_s, bins=bins)
    # A synchronous update is one step of every worker.
    workers = table["task"].n_unique() if run.synchronous else 1
    total = table.group_by("t_s").agg(pl.col("steps_per_s").sum() / workers).sort("t_s")
    lines = [_rate_line("updates, all workers", total, 0)]
    tasks = table["task"].unique(maintain_order=True).to_list()
    if len(tasks) > 1:
        lines += [
            _rate_line(f"steps of {task}", table.filter(pl.col("task") == task), n + 1) for n, task in enumerate(tasks)
        ]
    return Lines(
        key="throughput",
        title="Throughput over time",
        caption=f"Mean in each of {bins} equal time intervals; the training was delayed where the lines dip.",
        views=[LineView(name="", x_title=OVER_TIME, panels=[Panel(title="per second", lines=lines, zero=True)])],
        marks=marks_of(run.result, run.start_s),
    )


def _rate_line(name: str, table: pl.DataFrame, number: int) -> Line:
    xs = [x or 0.0 for x in compact(table["t_s"], 6)]
    return Line(
        name=name, x=xs, y=compact(table["steps_per_s"]), colour=number, dashed=number >= 8, thin=number > 0,
        points=len(xs) == 1,
    )  # fmt: skip


def _downsampled_losses(losses: pl.DataFrame) -> dict[str, pl.DataFrame]:
    count = max(1, losses["task"].n_unique())
    by_task = {}
    for (task,), table in losses.group_by("task", maintain_order=True):
        by_task[str(task)] = table[downsampled(table["loss"].to_numpy(), max(50, _POINTS_PER_RUN // count))]
    return dict(sorted(by_task.items()))


def _training_loss(task: str, losses: pl.DataFrame, by: str, number: int) -> Line:
    return Line(
        name=f"{task} training batches",
        x=[x or 0.0 for x in compact(losses[_COLUMNS[by]], 7)],
        y=compact(losses["loss"], 4),
        colour=number + 1,
        dashed=number >= 7,
        thin=True,
    )


def _is_wide(losses: "np.ndarray[Any, Any]") -> bool:
    positive = losses[np.isfinite(losses) & (losses > 0)]
    # A logarithmic axis has no place for 0.
    return bool(
        len(positive) and len(positive) == np.isfinite(losses).sum() and positive.max() > _LOG_FROM * positive.min()
    )
