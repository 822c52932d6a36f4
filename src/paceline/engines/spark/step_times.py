"""Divides a step of Spark among the phases of each worker, from Spark's task metrics. Pure.

pull     deserialisation of the task, and the time until its function has the parameters: the broadcast is fetched by
         the executor and read by its Python process
data     reading the batch
compute  the function; in a task without Python code the whole run without garbage collection and fetching
push     serialisation of the result and its transfer; and all later stages that add results up
wait     until the task is started, and from its end until the driver has made the update
GC       garbage collection that is part of none of these
"""

from collections.abc import Mapping, Sequence

import msgspec

from paceline.engines.spark.event_log import JobRecord, TaskRecord
from paceline.engines.spark.gradient_task import Share
from paceline.engines.spark.step_channel import StepTimes

_MS = 1_000_000


class StepMarks(msgspec.Struct, frozen=True, kw_only=True):
    """One step as the driver saw it, on its monotonic clock."""

    step: int
    update: int
    start_ns: int
    broadcast_ns: int
    """When the parameters were ready to be sent, and the job was submitted."""
    end_ns: int
    """When the update was made."""
    wall_offset_ns: int
    """Time of day less monotonic clock."""

    def own_ns(self, wall_ms: int) -> int:
        """A time of day on the monotonic clock, within the step."""
        return min(self.end_ns, max(self.start_ns, wall_ms * _MS - self.wall_offset_ns))


class StepAccount(msgspec.Struct, frozen=True, kw_only=True):
    workers: dict[str, StepTimes]
    driver_ns: int
    """How long the driver worked while no task of the step did."""


def account(marks: StepMarks, job: JobRecord, shares: Sequence[Share], tasks: Sequence[str]) -> StepAccount:
    """The times of each task's step. `tasks` are the names of all workers, by their number."""
    first_stage = min((task.stage for task in job.tasks), default=0)
    first = {task.partition: task for task in job.tasks if task.stage == first_stage}
    by_worker: dict[str, Share] = {}
    without_own: list[Share] = []
    for share in shares:
        # On a cluster that is not the run's own, an executor belongs to no task: worker and share are the same there.
        worker = share.task if share.task and share.task in tasks else tasks[share.worker]
        if worker in by_worker:
            without_own.append(share)  # Computed in place of a worker that is away.
        else:
            by_worker[worker] = share
    workers = {}
    for worker in tasks:
        own = by_worker.get(worker)
        if own is None:
            loss = without_own.pop(0).loss if without_own else float("nan")
            workers[worker] = StepTimes(marks.step, marks.update, loss, marks.start_ns, marks.end_ns)
        else:
            workers[worker] = _worker_times(marks, first.get(own.worker), _later(job, first, own.worker), own)
    last_finish = max((marks.own_ns(task.finish_ms) for task in job.tasks), default=marks.end_ns)
    driver_ns = (marks.broadcast_ns - marks.start_ns) + (marks.end_ns - last_finish)
    return StepAccount(workers=workers, driver_ns=driver_ns)


def _later(job: JobRecord, first: Mapping[int, TaskRecord], index: int) -> list[TaskRecord]:
    """The tasks of later stages on the executor that computed this share."""
    own = first.get(index)
    return [task for task in job.tasks if own and task.stage != own.stage and task.executor == own.executor]


def _worker_times(marks: StepMarks, task: TaskRecord | None, later: Sequence[TaskRecord], share: Share) -> StepTimes:
    inside_ns = share.pull_ns + share.data_ns + share.compute_ns
    if task is None:  # The listener has lost the event: only the function's own times are known.
        launch = max(marks.broadcast_ns, marks.end_ns - inside_ns)
        return StepTimes(
            marks.step, marks.update, share.loss, marks.start_ns, marks.end_ns, launch,
            share.pull_ns, share.data_ns, share.compute_ns,
        )  # fmt: skip
    launch = marks.own_ns(task.launch_ms)
    # What the executor needed beside the function: fetching the broadcast, and passing it to Python.
    beside_ns = max(0, task.run_ms * _MS - inside_ns)
    gc_ns = min(task.gc_ms * _MS, beside_ns)
    push_ns = (task.serialize_ms + task.getting_result_ms) * _MS
    push_ns += sum((one.finish_ms - one.launch_ms) * _MS for one in later)
    waited_ns = max(0, launch - marks.broadcast_ns) + task.scheduler_ms * _MS
    times = _fitted(
        marks.end_ns - launch,
        task.deserialize_ms * _MS + beside_ns - gc_ns + share.pull_ns,
        share.data_ns,
        share.compute_ns,
        gc_ns,
        push_ns,
    )
    pull_ns, data_ns, compute_ns, gc_ns, push_ns = times
    return StepTimes(
        marks.step, marks.update, share.loss, marks.start_ns, marks.end_ns, launch,
        pull_ns, data_ns, compute_ns, push_ns, waited_ns, gc_ns,
    )  # fmt: skip


def _fitted(available_ns: int, *durations_ns: int) -> list[int]:
    """The durations one after the other, cut where the step ends: Spark's times are whole milliseconds."""
    fitted = []
    for duration_ns in durations_ns:
        fitted.append(min(duration_ns, max(0, available_ns)))
        available_ns -= fitted[-1]
    return fitted
