"""The evaluations that workers made during a run."""

import math

import polars as pl

from paceline.store.result import WorkerEvaluation
from paceline.store.run import StoredRun


def last_evaluations(run: StoredRun) -> dict[str, WorkerEvaluation]:
    """The last evaluation of each worker that made one, by task."""
    rows = run.scan_steps().filter((pl.col("kind") == "eval") & ~pl.col("undone"))
    last = run.collect(rows.group_by("task").agg(pl.col("update", "loss", "accuracy").sort_by("t_s").last()))
    return {
        task: WorkerEvaluation(update=update, loss=_finite(loss), accuracy=_finite(accuracy))
        for task, update, loss, accuracy in last.iter_rows()
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
