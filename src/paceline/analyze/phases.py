"""Where each worker's time went, as seconds per phase."""

import polars as pl

from paceline.recording.recorder import PHASES
from paceline.store.result import Staleness

PHASE_NAMES = tuple(kind.name.lower() for kind in PHASES)
_EXCHANGE = ("pull", "compute", "push", "wait")


def phases_by_worker(steps: pl.DataFrame, *, split_exchange: bool) -> dict[str, dict[str, float]]:
    """Seconds per worker and phase.

    `split_exchange`: pushes end for all workers at once (all-reduce), so the time until the last worker
    has begun its push is waiting, not transfer.
    """
    steps = of_whole_steps(steps)
    spent = steps.filter(pl.col("kind").is_in(PHASE_NAMES) & ~pl.col("traced"))
    if split_exchange:
        spent = _with_waiting_apart(spent)
    found: dict[str, dict[str, float]] = {}
    for task, kind, seconds in spent.group_by("task", "kind").agg(pl.col("duration_s").sum()).iter_rows():
        found.setdefault(task, {})[kind] = seconds
    for task, shares in _shares_of_fused(steps).items():
        for phase, seconds in shares.items():
            mine = found.setdefault(task, {})
            mine[phase] = mine.get(phase, 0.0) + seconds
    return {task: {name: mine[name] for name in PHASE_NAMES if name in mine} for task, mine in found.items()}


def of_whole_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Without what came after the last step that counts: a step that was cut off, the wait for the others' end."""
    made = steps.filter(pl.col("kind") == "step").group_by("task").agg(last=pl.col("step").max())
    between = pl.col("kind").is_in(["eval", "checkpoint"])
    kept = steps.join(made, on="task", how="left").filter((pl.col("step") <= pl.col("last")) | between)
    return kept.filter(~pl.col("final")).drop("last")


def _with_waiting_apart(spent: pl.DataFrame) -> pl.DataFrame:
    push = spent.filter(pl.col("kind") == "push").with_columns(
        waited=(pl.col("t_s").max().over("step") - pl.col("t_s")).clip(0, None)
    )
    push = push.with_columns(waited=pl.min_horizontal("waited", "duration_s"))
    moved = push.with_columns(duration_s=pl.col("duration_s") - pl.col("waited")).drop("waited")
    waited = push.with_columns(kind=pl.lit("wait"), duration_s=pl.col("waited")).drop("waited")
    return pl.concat([spent.filter(pl.col("kind") != "push"), moved, waited])


def _shares_of_fused(steps: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Fused calls divided as the same worker's traced steps were."""
    fused = steps.filter((pl.col("kind") == "fused") & ~pl.col("traced"))
    totals = dict(fused.group_by("task").agg(pl.col("duration_s").sum()).iter_rows())
    traced = steps.filter(pl.col("traced") & pl.col("kind").is_in(_EXCHANGE))
    found: dict[str, dict[str, float]] = {}
    for task, total in totals.items():
        mine = traced.filter(pl.col("task") == task)
        # A worker without a trace of its own is taken to be like the others; with none at all it is compute.
        basis = mine if len(mine) else traced
        times = dict(basis.group_by("kind").agg(pl.col("duration_s").sum()).iter_rows()) or {"compute": 1.0}
        whole = sum(times.values()) or 1.0
        found[task] = {phase: total * time / whole for phase, time in times.items()}
    return found


def staleness_by_worker(steps: pl.DataFrame) -> dict[str, Staleness]:
    known = steps.filter((pl.col("kind") == "step") & (pl.col("staleness") >= 0))
    figures = known.group_by("task").agg(
        mean=pl.col("staleness").mean(),
        p95=pl.col("staleness").quantile(0.95, "nearest"),
        max=pl.col("staleness").max(),
    )
    return {
        row["task"]: Staleness(mean=round(row["mean"], 3), p95=row["p95"], max=row["max"])
        for row in figures.iter_rows(named=True)
    }
