"""Seconds per phase, and staleness of gradients, of each worker.

Traced steps are steps that ran under the framework's profiler: their phases are known, but they are slower than other
steps, so their time is not counted. A fused call is one framework call that contains several phases.
"""

import polars as pl

from paceline.recording.layout import PHASE_NAMES
from paceline.store.result import Staleness

_PHASES_OF_FUSED_CALL = ("pull", "compute", "push", "wait")


def phases_by_worker(steps: pl.DataFrame, *, mixed_phase: str | None) -> dict[str, dict[str, float]]:
    """Seconds per worker and phase.

    `mixed_phase`: the phase of the strategy whose recorded time contains both waiting and transfer, e.g. `push` of an
    all-reduce. It ends for all workers at the same time, so the time until the last worker began it counts as `wait`.
    """
    steps = rows_of_complete_steps(steps)
    spent = steps.filter(pl.col("kind").is_in(PHASE_NAMES) & ~pl.col("traced"))
    if mixed_phase:
        spent = _split_wait_from(mixed_phase, spent)
    seconds_by_worker: dict[str, dict[str, float]] = {}
    for task, kind, seconds in spent.group_by("task", "kind").agg(pl.col("duration_s").sum()).iter_rows():
        seconds_by_worker.setdefault(task, {})[kind] = seconds
    for task, shares in _split_fused_calls(steps).items():
        for phase, seconds in shares.items():
            own = seconds_by_worker.setdefault(task, {})
            own[phase] = own.get(phase, 0.0) + seconds
    return {task: {name: own[name] for name in PHASE_NAMES if name in own} for task, own in seconds_by_worker.items()}


def rows_of_complete_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Rows of complete steps, and all evaluations and checkpoints, which lie between steps.

    Rows of an interrupted last step, of the wait at the end, and of the final evaluation are left out.
    """
    last_steps = steps.filter(pl.col("kind") == "step").group_by("task").agg(last=pl.col("step").max())
    between = pl.col("kind").is_in(["eval", "checkpoint"])
    counted = steps.join(last_steps, on="task", how="left").filter((pl.col("step") <= pl.col("last")) | between)
    return counted.filter(~pl.col("final")).drop("last")


def _split_wait_from(phase: str, spent: pl.DataFrame) -> pl.DataFrame:
    mixed = spent.filter(pl.col("kind") == phase).with_columns(
        waited=(pl.col("t_s").max().over("step") - pl.col("t_s")).clip(0, None)
    )
    mixed = mixed.with_columns(waited=pl.min_horizontal("waited", "duration_s"))
    transfer = mixed.with_columns(duration_s=pl.col("duration_s") - pl.col("waited")).drop("waited")
    waited = mixed.with_columns(kind=pl.lit("wait"), duration_s=pl.col("waited")).drop("waited")
    return pl.concat([spent.filter(pl.col("kind") != phase), transfer, waited])


def _split_fused_calls(steps: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Seconds of fused calls by worker and phase, divided in the proportions of the worker's traced steps."""
    fused = steps.filter((pl.col("kind") == "fused") & ~pl.col("traced"))
    totals = dict(fused.group_by("task").agg(pl.col("duration_s").sum()).iter_rows())
    traced = steps.filter(pl.col("traced") & pl.col("kind").is_in(_PHASES_OF_FUSED_CALL))
    seconds_by_worker: dict[str, dict[str, float]] = {}
    for task, total in totals.items():
        own = traced.filter(pl.col("task") == task)
        # A worker without traced steps gets the proportions of all workers. Without any traced step, all is compute.
        basis = own if len(own) else traced
        times = dict(basis.group_by("kind").agg(pl.col("duration_s").sum()).iter_rows()) or {"compute": 1.0}
        traced_total = sum(times.values()) or 1.0
        seconds_by_worker[task] = {phase: total * time / traced_total for phase, time in times.items()}
    return seconds_by_worker


def staleness_by_worker(steps: pl.DataFrame) -> dict[str, Staleness]:
    """Staleness in updates of each worker's gradients; empty for synchronous runs, which record -1."""
    with_staleness = steps.filter((pl.col("kind") == "step") & (pl.col("staleness") >= 0))
    statistics = with_staleness.group_by("task").agg(
        mean=pl.col("staleness").mean(),
        p95=pl.col("staleness").quantile(0.95, "nearest"),
        max=pl.col("staleness").max(),
    )
    return {
        row["task"]: Staleness(mean=round(row["mean"], 3), p95=row["p95"], max=row["max"])
        for row in statistics.iter_rows(named=True)
    }
