"""The results of each worker: steps, phases, staleness and exchanged bytes."""

from collections import Counter

import polars as pl

from paceline.analyze.clocks import clock_uncertainty
from paceline.analyze.evaluations import last_evaluations
from paceline.analyze.phases import PhaseSums, StalenessCounts, last_steps_of
from paceline.analyze.training import steps_before
from paceline.recording.layout import OTHER, STEP_PHASE_NAMES
from paceline.store.events import AssignedEvent, FinishedEvent
from paceline.store.result import CodeLine, Exchanged, RunExchanged, WorkerResult
from paceline.store.run import StoredRun

_FEWEST_SAMPLES = 5
"""Samples of a line of a user's script from which it is shown."""


class StepSums:
    """What is added up over all parts of the table of steps, by worker."""

    def __init__(self, run: StoredRun) -> None:
        last_steps = run.collect(last_steps_of(run.scan_steps()))
        phases = PhaseSums(
            mixed_phase=run.header.strategy.mixed_phase, last_steps=last_steps, uncertainty=clock_uncertainty(run)
        )
        staleness = StalenessCounts()
        self.examples = 0
        """Examples of all steps of a user's script that were not undone."""
        self._sizes: Counter[int] = Counter()
        self._step_s: Counter[str] = Counter()
        self._header = run.header
        self.recorded: Counter[str] = Counter()
        """The number of steps that have a record and were not undone. A step with two records counts once."""
        for part in run.step_parts():
            phases.add(part)
            staleness.add(part)
            kept = part.filter((pl.col("kind") == "step") & pl.col("undone").not_())
            self.recorded.update(dict(kept.group_by("task").agg(pl.col("step").n_unique()).iter_rows()))
            if self._header.spec.is_script:
                self._add_script_steps(part.filter(pl.col("kind") == "step"), kept)
        self.phases = phases.by_worker()
        for task, step_s in self._step_s.items():
            own = self.phases.setdefault(task, {})
            own[OTHER] = max(0.0, step_s - sum(own.get(name, 0.0) for name in STEP_PHASE_NAMES))
        self.staleness = staleness.by_worker()

    @property
    def batch(self) -> int:
        """Examples per worker and step; of a user's script, those of most steps."""
        if self._header.spec.is_script:
            return self._sizes.most_common(1)[0][0] if self._sizes else 0
        return self._header.spec.batch if self._header.trains else 0

    def _add_script_steps(self, steps: pl.DataFrame, kept: pl.DataFrame) -> None:
        self._step_s.update(dict(steps.group_by("task").agg(pl.col("duration_s").sum()).iter_rows()))
        self._sizes.update(dict(kept.group_by("examples").len().iter_rows()))
        self.examples += int(kept["examples"].sum())


def worker_results(run: StoredRun, sums: StepSums, outcomes: dict[str, FinishedEvent]) -> list[WorkerResult]:
    before = steps_before(run.header)
    threads = {event.task: event.threads for event in run.all(AssignedEvent)}
    evaluations = last_evaluations(run)
    return [
        WorkerResult(
            task=task,
            host=host,
            steps=outcomes[task].steps if task in outcomes else before[task] + sums.recorded[task],
            phases={name: round(seconds, 6) for name, seconds in sums.phases.get(task, {}).items()},
            staleness=sums.staleness.get(task),
            exchanged=_exchanged(outcomes.get(task)),
            dropped=outcomes[task].dropped if task in outcomes else 0,
            fetched_mb=round(outcomes[task].fetched_bytes / 1e6, 6) if task in outcomes else 0.0,
            threads=threads.get(task),
            last_evaluation=evaluations.get(task),
            lines=_lines(outcomes.get(task)),
            steps_before=before[task],
        )
        for task, host in run.header.worker_hosts.items()
    ]


def _lines(finished: FinishedEvent | None) -> list[CodeLine]:
    """The most frequent lines of each phase first. Lines with few samples say nothing."""
    return [
        CodeLine(phase=line.phase, where=line.where, share=round(line.samples / line.of, 4))
        for line in (finished.lines if finished else ())
        if line.samples >= _FEWEST_SAMPLES
    ]


def _exchanged(finished: FinishedEvent | None) -> Exchanged | None:
    if finished is None or finished.sent_bytes is None or finished.received_bytes is None:
        return None
    return Exchanged(
        sent_mb=round(finished.sent_bytes / 1e6, 6),
        received_mb=round(finished.received_bytes / 1e6, 6),
        steps=finished.exchange_steps,
    )


def run_exchanged(workers: list[WorkerResult], updates: int, steps: int, batch: int) -> RunExchanged | None:
    """What all workers exchanged in a run of `updates` updates and `steps` steps; None if a worker did not count it."""
    known = [worker.exchanged for worker in workers if worker.exchanged]
    if not workers or len(known) < len(workers):
        return None
    sent, received = sum(one.sent_mb for one in known), sum(one.received_mb for one in known)
    counted = None if any(one.steps is None for one in known) else sum(one.steps or 0 for one in known)
    # Of a restarted worker, only the steps since its restart are counted.
    counted_updates = max(1.0, updates * (counted / steps if counted and steps else 1.0))
    examples = batch * (counted or steps)
    return RunExchanged(
        sent_mb=round(sent, 6),
        received_mb=round(received, 6),
        steps=counted,
        sent_mb_per_update=round(sent / counted_updates, 6),
        received_mb_per_update=round(received / counted_updates, 6),
        bytes_per_example=round(1e6 * (sent + received) / examples, 3) if examples else None,
    )
