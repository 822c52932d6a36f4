"""Seconds per phase, and staleness of gradients, of each worker.

Traced steps are steps that ran under the framework's profiler: their phases are known, but they are slower than other
steps, so their time is not counted. A fused call is one framework call that contains several phases.
"""

import math
from collections import Counter

import polars as pl

from paceline.analyze.clocks import EXACT, Uncertainty, waited_s
from paceline.recording.layout import PHASE_NAMES, TIMED_NAMES
from paceline.store.result import Staleness

LastSteps = pl.DataFrame
"""The number of the last complete step (`last`) of each `task`."""
_PHASES_OF_FUSED_CALL = ("pull", "compute", "push", "wait")


class PhaseSums:
    """Adds up the seconds per worker and phase over the parts of a table of steps (`StoredRun.step_parts`).

    `mixed_phase`: the phase of the strategy whose recorded time contains both waiting and transfer, e.g. `push` of an
    all-reduce. It ends for all workers at the same time, so the time until the last worker began it counts as `wait`,
    unless it is shorter than the uncertainty of the clocks.
    """

    def __init__(
        self, *, mixed_phase: str | None, last_steps: LastSteps | None = None, uncertainty: Uncertainty = EXACT
    ) -> None:
        """`last_steps` are those of the whole table; None if there is only one part."""
        self._mixed_phase, self._last_steps, self._uncertainty = mixed_phase, last_steps, uncertainty
        self._spent: Counter[tuple[str, str]] = Counter()
        self._fused: Counter[str] = Counter()
        self._traced: Counter[tuple[str, str]] = Counter()

    def add(self, steps: pl.DataFrame) -> None:
        """Add a part, which has all rows of certain steps."""
        steps = rows_of_complete_steps(steps, self._last_steps)
        untraced, seconds = steps.filter(~pl.col("traced")), pl.col("duration_s").sum()
        spent = untraced.filter(pl.col("kind").is_in(PHASE_NAMES))
        if self._mixed_phase:
            spent = split_wait_from(self._mixed_phase, spent, self._uncertainty)
        for task, kind, sum_s in spent.group_by("task", "kind").agg(seconds).iter_rows():
            self._spent[task, kind] += sum_s
        for task, sum_s in untraced.filter(pl.col("kind") == "fused").group_by("task").agg(seconds).iter_rows():
            self._fused[task] += sum_s
        traced = steps.filter(pl.col("traced") & pl.col("kind").is_in(_PHASES_OF_FUSED_CALL))
        for task, kind, sum_s in traced.group_by("task", "kind").agg(seconds).iter_rows():
            self._traced[task, kind] += sum_s

    def by_worker(self) -> dict[str, dict[str, float]]:
        """Seconds per worker and phase; `fused` if no step was traced and the phases of fused calls are not known."""
        seconds: dict[str, dict[str, float]] = {}
        for (task, kind), sum_s in self._spent.items():
            seconds.setdefault(task, {})[kind] = sum_s
        for task, total in self._fused.items():
            own = seconds.setdefault(task, {})
            for phase, share in self._shares_of_fused_calls(task).items():
                own[phase] = own.get(phase, 0.0) + total * share
        return {task: {name: own[name] for name in TIMED_NAMES if name in own} for task, own in seconds.items()}

    def _shares_of_fused_calls(self, task: str) -> dict[str, float]:
        """The share of each phase in the fused calls of a worker: the proportions of its traced steps.

        Without any traced step they stay `fused`: nothing says how to divide them.
        """
        own = {kind: sum_s for (worker, kind), sum_s in self._traced.items() if worker == task}
        # A worker without traced steps gets the proportions of all workers.
        times: Counter[str] = Counter(own)
        for (_, kind), sum_s in self._traced.items() if not own else ():
            times[kind] += sum_s
        total = sum(times.values())
        return {kind: sum_s / (total or 1.0) for kind, sum_s in times.items()} or {"fused": 1.0}


def phases_by_worker(
    steps: pl.DataFrame, *, mixed_phase: str | None, uncertainty: Uncertainty = EXACT
) -> dict[str, dict[str, float]]:
    """Seconds per worker and phase of a whole table, see `PhaseSums`."""
    sums = PhaseSums(mixed_phase=mixed_phase, uncertainty=uncertainty)
    sums.add(steps)
    return sums.by_worker()


def last_steps_of(steps: pl.LazyFrame) -> pl.LazyFrame:
    """A query of the last complete step of each task."""
    return steps.filter(pl.col("kind") == "step").group_by("task").agg(last=pl.col("step").max())


def rows_of_complete_steps(steps: pl.DataFrame, last_steps: LastSteps | None = None) -> pl.DataFrame:
    """Rows of complete steps, and all evaluations and checkpoints, which lie between steps.

    Rows of an interrupted last step, of the wait at the end, and of the final evaluation are left out. `last_steps` are
    those of the whole table if `steps` is a part of it.
    """
    last_steps = last_steps_of(steps.lazy()).collect() if last_steps is None else last_steps
    between = pl.col("kind").is_in(["eval", "checkpoint"])
    counted = steps.join(last_steps, on="task", how="left").filter((pl.col("step") <= pl.col("last")) | between)
    return counted.filter(~pl.col("final")).drop("last")


def split_wait_from(phase: str, spans: pl.DataFrame, uncertainty: Uncertainty) -> pl.DataFrame:
    """The rows of phases, with each row of the mixed phase split into a wait and the transfer that follows it."""
    is_mixed = pl.col("kind") == phase
    # A step of a user's script may have several exchanges: the first of each worker belong together, and so on.
    numbered = spans.filter(is_mixed).with_columns(number=pl.col("t_s").rank("ordinal").over("task", "step"))
    waited = pl.min_horizontal(waited_s(uncertainty, ("step", "number")), "duration_s")
    mixed = numbered.with_columns(waited=waited).drop("number")
    waits = mixed.with_columns(kind=pl.lit("wait"), duration_s=pl.col("waited"))
    transfers = mixed.with_columns(pl.col("t_s") + pl.col("waited"), pl.col("duration_s") - pl.col("waited"))
    return pl.concat([spans.filter(~is_mixed), transfers.drop("waited"), waits.drop("waited")])


class StalenessCounts:
    """Counts the steps by worker and staleness over the parts of a table of steps."""

    def __init__(self) -> None:
        self._steps: dict[str, Counter[int]] = {}

    def add(self, steps: pl.DataFrame) -> None:
        with_staleness = steps.filter((pl.col("kind") == "step") & (pl.col("staleness") >= 0))
        for task, staleness, count in with_staleness.group_by("task", "staleness").len().iter_rows():
            self._steps.setdefault(task, Counter())[staleness] += count

    def by_worker(self) -> dict[str, Staleness]:
        """Staleness in updates of each worker's gradients; empty for synchronous runs, which record -1."""
        return {task: _staleness(counts) for task, counts in self._steps.items()}


def _staleness(counts: Counter[int]) -> Staleness:
    """The 95th percentile is the nearest value, as polars computes it."""
    total = counts.total()
    position, seen = math.floor((total - 1) * 0.95 + 0.5), 0
    p95 = 0
    for p95 in sorted(counts):
        seen += counts[p95]
        if seen > position:
            break
    mean = sum(staleness * count for staleness, count in counts.items()) / total
    return Staleness(mean=round(mean, 3), p95=float(p95), max=max(counts))


def staleness_by_worker(steps: pl.DataFrame) -> dict[str, Staleness]:
    """The staleness of each worker in a whole table."""
    counts = StalenessCounts()
    counts.add(steps)
    return counts.by_worker()
