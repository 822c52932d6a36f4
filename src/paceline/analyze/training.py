"""When a run trained and what its workers achieved: its period on the run's clock, updates and rates."""

import polars as pl

from paceline.store.events import FinishedEvent
from paceline.store.header import ResumePoint, RunHeader
from paceline.store.run import StoredRun

END_S = pl.col("t_s") + pl.col("duration_s")
"""The end of a row of the table `steps`."""


def training_start_s(run: StoredRun) -> float:
    """When the training began, on the run's clock. `train_s` and `reached.at_s` are counted from this time."""
    return _start_s(run, outcomes_of(run))


def outcomes_of(run: StoredRun) -> dict[str, FinishedEvent]:
    """The event with which each worker finished; workers that did not finish are missing."""
    return {event.task: event for event in run.all(FinishedEvent) if event.task in run.header.worker_hosts}


def steps_before(header: RunHeader) -> dict[str, int]:
    """The steps that each worker made in the run that this one resumes."""
    start = header.resumed or ResumePoint()
    return {
        task: start.update if header.strategy.synchronous else start.steps.get(task, 0) for task in header.worker_hosts
    }


def _start_s(run: StoredRun, outcomes: dict[str, FinishedEvent]) -> float:
    go = run.first("go")
    starts = [event.started_s for event in outcomes.values() if event.started_s]
    # Restarted workers report the start after their restart, which is later than the start of the training.
    if starts and not run.first("restarting"):
        return float(min(starts))
    if go:
        return float(go["t_s"])
    # The events may be lost although the steps are not, as after a full disk.
    return float(run.collect(run.scan_steps().select(pl.col("t_s").min())).item() or 0.0)


def step_rows(run: StoredRun) -> pl.LazyFrame:
    """A query of the rows of whole steps."""
    return run.scan_steps().filter(pl.col("kind") == "step")


class Training:
    """The training of a run: its period on the run's clock, its traced steps and the events of finished workers."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self.outcomes = outcomes = outcomes_of(run)
        sums = run.collect(
            step_rows(run).select(
                end_s=END_S.max(),
                workers=pl.col("task").n_unique(),
                traced_s=pl.col("duration_s").filter(pl.col("traced")).sum(),
                traced_steps=pl.col("traced").sum(),
            )
        ).row(0, named=True)
        # The evaluation that met a stop rule is part of the training: without it the rule would not be known to be met.
        ends = [end for event in outcomes.values() for end in (event.ended_s, event.reached_s) if end]
        self.start_s = _start_s(run, outcomes)
        if not ends and sums["end_s"] is not None:
            ends = [sums["end_s"]]
        self.seconds: float = max(0.0, max(ends, default=self.start_s) - self.start_s)
        self.end_s = self.start_s + self.seconds
        self._workers = max(1, len(outcomes) or sums["workers"])
        self._traced_s: float = sums["traced_s"]
        self.traced_steps: int = sums["traced_steps"]

    def step_ends(self) -> pl.Series:
        """The ends of all steps on the run's clock."""
        return self._run.collect(step_rows(self._run).select(END_S)).to_series()

    def rate(self, count: float, *, synchronous: bool) -> float:
        """`count` per second without traced steps and their time, because tracing makes steps slower."""
        if self.seconds <= 0:
            return 0.0
        # Workers of a synchronous run trace the same steps, so one traced update is one traced step of each worker.
        traced = self.traced_steps / self._workers if synchronous else self.traced_steps
        return max(0.0, count - traced) / max(self.seconds - self._traced_s / self._workers, 1e-9)


def updates_of(run: StoredRun, training: Training) -> int:
    """The last number of updates that a worker saw. Updates that a return to a checkpoint undid do not count."""
    if training.outcomes:
        return max(event.updates for event in training.outcomes.values())
    restored = [event for event in run.events if event["event"] == "restored"]
    resumed = run.header.resumed or ResumePoint()
    from_s, from_update = (restored[-1]["t_s"], restored[-1].get("update", 0)) if restored else (0.0, resumed.update)
    since = step_rows(run).filter(pl.col("t_s") >= from_s)
    return max(int(from_update), int(run.collect(since.select(pl.col("update").max())).item() or 0))


def total_s(run: StoredRun) -> float:
    """When the last event, step or sample of the run was recorded; a killed run may end with any of them."""
    last_step = run.collect(run.scan_steps().select(END_S.max())).item() or 0.0
    last_event = run.events[-1]["t_s"] if run.events else 0.0
    return max(float(last_step), float(run.samples["t_s"].max() or 0.0), last_event)  # type: ignore[arg-type]


def first_step_s(run: StoredRun) -> float | None:
    """When the last worker ended its first step, on the run's clock; None if a worker made no step."""
    first_numbers = run.collect(step_rows(run).group_by("task").agg(first=pl.col("step").min()))
    if not len(first_numbers) or len(first_numbers) < len(run.header.worker_hosts):
        return None
    firsts = step_rows(run).join(first_numbers.lazy(), on="task").filter(pl.col("step") == pl.col("first"))
    return round(float(run.collect(firsts.select(END_S.max())).item()), 6)
