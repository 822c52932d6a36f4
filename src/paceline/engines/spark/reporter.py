"""Sends to every worker what Spark measured of its steps, once Spark's listener has written it."""

import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from paceline.engines.spark.event_log import EMPTY_TASK, EventLog, JobRecord
from paceline.engines.spark.gradient_task import Share
from paceline.engines.spark.step_channel import DriverChannel, Steps
from paceline.engines.spark.step_times import StepMarks, account, start_cost_ns
from paceline.plan.roles import WORKER, task_names
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import clock_ns
from paceline.train.context import TaskContext

_DRAIN_MS = 10_000


class StepReporter:
    """Matches the driver's view of each step with the event log, in the order of the steps."""

    def __init__(self, context: TaskContext, channel: DriverChannel, events: EventLog) -> None:
        self._recorder, self._channel, self._events = context.recorder, channel, events
        self._tasks = task_names(WORKER, context.job.workers)
        self._pending: deque[tuple[str, StepMarks, Sequence[Share]]] = deque()
        self._ended: dict[str, JobRecord] = {}
        self._result_bytes = self._gc_ms = 0
        self._start_cost_ns = 0
        self.fetched_bytes: Counter[str] = Counter()
        """Blocks of matrices that each worker has read from other executors."""

    def read_warm_up(self, spark: Any) -> None:
        """Find out from the jobs before the barrier what it costs to start a task."""
        drain(spark)
        empty = [task for job in self._events.ended_jobs() if job.group == EMPTY_TASK for task in job.tasks]
        self._start_cost_ns = start_cost_ns(empty)

    def add(self, group: str, marks: StepMarks, shares: Sequence[Share]) -> None:
        """A step has ended; its job has the group `group`."""
        self._pending.append((group, marks, shares))
        self._report_ended()

    def finish(self, spark: Any) -> None:
        """Report all steps; waits until the listener has written everything."""
        drain(spark)
        self._report_ended()
        while self._pending:
            group, marks, shares = self._pending.popleft()
            self.send(marks, JobRecord(job=-1, group=group, submitted_ms=0, stages=[], tasks=[]), shares)

    def details(self) -> dict[str, float]:
        """Sums over all steps."""
        return {
            "task_start_s": self._start_cost_ns / 1e9,
            "executor_gc_s": self._gc_ms / 1e3,
            "task_results_mb": self._result_bytes / 1e6,
            "failed_tasks": self._events.failed_tasks,
            "executors_lost": self._events.executors_lost,
        }

    def _report_ended(self) -> None:
        for job in self._events.ended_jobs():
            if job.group:
                self._ended[job.group] = job
        while self._pending and self._pending[0][0] in self._ended:
            group, marks, shares = self._pending.popleft()
            self.send(marks, self._ended.pop(group), shares)

    def send(self, marks: StepMarks, job: JobRecord, shares: Sequence[Share]) -> None:
        """Send the times of one step to all workers."""
        self._result_bytes += sum(task.result_bytes for task in job.tasks)
        self._gc_ms += sum(task.gc_ms for task in job.tasks)
        step = account(marks, job, shares, self._tasks, self._start_cost_ns)
        self.fetched_bytes.update(step.fetched_bytes)
        for task, times in step.workers.items():
            self._channel.send(task, Steps([times]))
        self._recorder.write(RecordKind.SERVE, marks.start_ns, step.driver_ns)


def wall_offset_ns() -> int:
    return time.time_ns() - clock_ns()


def drain(spark: Any) -> None:
    """Wait until Spark has written all events so far to the event log."""
    spark._jsc.sc().listenerBus().waitUntilEmpty(_DRAIN_MS)
