"""The critical path of a synchronous run: who was last at each step, and what kept it."""

import polars as pl

from paceline.analyze.phases import of_whole_steps

_BEFORE_THE_BARRIER = ("data", "pull", "compute", "push")
CRITICAL_SCHEMA = {"step": pl.UInt32, "task": pl.String, "late_s": pl.Float64, "phase": pl.String}


def critical_path(steps: pl.DataFrame, *, exchange_is_barrier: bool) -> pl.DataFrame:
    """For each step the worker that was last, by how much it was behind the middle of the others, and the phase in
    which it lost most against them. Steps that not all workers made are left out; empty if phases are not known step by
    step.

    `exchange_is_barrier`: workers meet in the exchange itself (all-reduce), so one has arrived when its push begins.
    """
    known = of_whole_steps(steps).filter(~pl.col("traced"))
    arrivals = _arrivals(known, "push" if exchange_is_barrier else "wait")
    workers = arrivals["task"].n_unique()
    whole = arrivals.filter(pl.len().over("step") == workers) if workers > 1 else arrivals.clear()
    if not len(whole):
        return pl.DataFrame(schema=CRITICAL_SCHEMA)
    ranked = whole.with_columns(
        latest=pl.col("arrived_s").max().over("step"),
        middle=_middle_of_others("arrived_s", workers),
    )
    last = ranked.filter(pl.col("arrived_s") == pl.col("latest")).unique("step", keep="first")
    lost = _where_lost(known, workers, exchange_is_barrier=exchange_is_barrier)
    joined = last.join(lost, on=["step", "task"], how="left").sort("step")
    late = (pl.col("arrived_s") - pl.col("middle")).alias("late_s")
    return joined.select("step", "task", late, pl.col("phase").fill_null("compute"))


def _arrivals(steps: pl.DataFrame, kind: str) -> pl.DataFrame:
    found = steps.filter(pl.col("kind") == kind)
    # A worker may wait more than once in a step: the first is the barrier's.
    return found.group_by("step", "task").agg(arrived_s=pl.col("t_s").min())


def _where_lost(steps: pl.DataFrame, workers: int, *, exchange_is_barrier: bool) -> pl.DataFrame:
    kinds = [kind for kind in _BEFORE_THE_BARRIER if not (exchange_is_barrier and kind == "push")]
    spent = steps.filter(pl.col("kind").is_in(kinds)).group_by("step", "task", "kind").agg(pl.col("duration_s").sum())
    mine, others = pl.col("duration_s"), pl.col("duration_s").sum().over("step", "kind")
    lost = spent.with_columns(lost=mine - (others - mine) / (workers - 1))
    worst = lost.filter(pl.col("lost") == pl.col("lost").max().over("step", "task"))
    return worst.unique(["step", "task"], keep="first").select("step", "task", phase="kind")


def _middle_of_others(column: str, workers: int) -> pl.Expr:
    """For the last of a few, the median of the rest; it is only read in the last one's row."""
    rest = pl.col(column).sort().head(workers - 1).median()
    return rest.over("step")
