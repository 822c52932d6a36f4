"""Learning curves and the staleness histogram of a run, from its stored steps, for charts."""

import polars as pl

from paceline.analyze.training import training_start_s
from paceline.store.result import Result
from paceline.store.run import StoredRun


def learning_curves(run: StoredRun, result: Result) -> pl.DataFrame:
    """Loss against updates, examples and seconds: a row for each step of each worker, and for each evaluation.

    Columns: `kind` (`step`: of the batch; `eval`: of the test set), `task`, `update`, `examples` (in all updates so
    far), `seconds` (of training), `loss`, `accuracy` (of an evaluation, else null). In the order of `seconds`.
    """
    examples_per_update = result.examples / result.updates if result.updates else 0.0
    curves = curves_of(run.scan_steps(), start_s=training_start_s(run), examples_per_update=examples_per_update)
    return run.collect(curves)


def curves_of(steps: pl.LazyFrame, *, start_s: float, examples_per_update: float) -> pl.LazyFrame:
    """The query of `learning_curves`, without a stored run. `seconds` is the end of the step or evaluation."""
    return (
        steps.filter(pl.col("kind").is_in(["step", "eval"]))
        .select(
            "kind",
            "task",
            "update",
            examples=(pl.col("update") * examples_per_update).round().cast(pl.Int64),
            seconds=pl.col("t_s") + pl.col("duration_s") - start_s,
            loss=pl.col("loss"),
            accuracy=pl.col("accuracy").fill_nan(None),
        )
        .sort("seconds", maintain_order=True)
    )


def staleness_histogram(steps: pl.LazyFrame) -> pl.LazyFrame:
    """A query of the number of steps by worker and staleness: columns `task`, `staleness`, `steps`.

    Staleness is the number of updates by others between a worker's pull and its push. Synchronous runs record -1, so
    the result is empty for them.
    """
    with_staleness = steps.filter((pl.col("kind") == "step") & (pl.col("staleness") >= 0))
    return with_staleness.group_by("task", "staleness").agg(steps=pl.len()).sort("task", "staleness")
