"""The critical path of a synchronous run: the last worker of each step, and the phase that delayed it."""

import polars as pl

from paceline.analyze.clocks import EXACT, Uncertainty, is_last
from paceline.analyze.phases import LastSteps, rows_of_complete_steps

_PHASES_BEFORE_BARRIER = ("data", "pull", "compute", "push", "forward", "backward", "optimizer")
CRITICAL_SCHEMA = {"step": pl.UInt32, "task": pl.String, "late_s": pl.Float64, "phase": pl.String}


def critical_path(
    steps: pl.DataFrame,
    *,
    barrier_phase: str,
    workers: int | None = None,
    last_steps: LastSteps | None = None,
    uncertainty: Uncertainty = EXACT,
    last_wait: bool = False,
) -> pl.DataFrame:
    """One row per step: the worker that arrived last at the barrier, its delay against the median of the other workers,
    and the phase in which it took longest compared with them. Steps that some workers did not make are left out, and
    those in which the clocks of the hosts cannot say who was last. Empty if phases are not recorded for each step.

    A worker arrives at the barrier when its `barrier_phase` begins. If `steps` is a part of a table, `workers` (the
    number of workers that ever wait at the barrier) and `last_steps` are those of the whole table. `last_wait`: the
    barrier is the last wait of a step, see `Strategy.waits_for_task`.
    """
    untraced = rows_of_complete_steps(steps, last_steps).filter(~pl.col("traced"))
    arrivals = _arrivals(untraced, barrier_phase, last_wait=last_wait)
    workers = arrivals["task"].n_unique() if workers is None else workers
    complete = arrivals.filter(pl.len().over("step") == workers) if workers > 1 else arrivals.clear()
    if not len(complete):
        return pl.DataFrame(schema=CRITICAL_SCHEMA)
    ranked = complete.with_columns(median_of_others=_median_of_others("arrived_s", workers))
    last = ranked.filter(is_last(pl.col("arrived_s"), uncertainty)).unique("step", keep="first")
    excess = _slowest_phases(untraced, workers, barrier_phase)
    joined = last.join(excess, on=["step", "task"], how="left").sort("step")
    late = (pl.col("arrived_s") - pl.col("median_of_others")).alias("late_s")
    return joined.select("step", "task", late, pl.col("phase").fill_null("compute"))


def _arrivals(steps: pl.DataFrame, kind: str, *, last_wait: bool) -> pl.DataFrame:
    waits = steps.filter(pl.col("kind") == kind)
    # A worker may wait more than once in a step: mostly the first wait is the barrier.
    start = pl.col("t_s").max() if last_wait else pl.col("t_s").min()
    return waits.group_by("step", "task").agg(pl.col("host").first(), arrived_s=start)


def _slowest_phases(steps: pl.DataFrame, workers: int, barrier_phase: str) -> pl.DataFrame:
    kinds = [kind for kind in _PHASES_BEFORE_BARRIER if kind != barrier_phase]
    spent = steps.filter(pl.col("kind").is_in(kinds)).group_by("step", "task", "kind").agg(pl.col("duration_s").sum())
    own, others = pl.col("duration_s"), pl.col("duration_s").sum().over("step", "kind")
    excess = spent.with_columns(excess=own - (others - own) / (workers - 1))
    worst = excess.filter(pl.col("excess") == pl.col("excess").max().over("step", "task"))
    return worst.unique(["step", "task"], keep="first").select("step", "task", phase="kind")


def _median_of_others(column: str, workers: int) -> pl.Expr:
    """The median of all values of a step but the largest. Only read in the row of the last worker."""
    rest = pl.col(column).sort().head(workers - 1).median()
    return rest.over("step")
