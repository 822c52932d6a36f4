"""Divides a step of Spark among the phases of each worker, from Spark's task metrics. Pure.

pull     the time until the function of a started task has the parameters: the broadcast is fetched by the executor
         and read by its Python process
data     reading the batch
compute  the function; in a task without Python code the whole run without garbage collection and fetching
push     serialisation of the result and its transfer; and all later stages that add results up
wait     until the scheduler and the executor have started the task, and from its end until the driver has made the
         update. What it costs an executor to start a task, such as deserialisation and passing it to Python, is known
         from tasks that do nothing.
GC       garbage collection that is part of none of these

If the stages before the last one only exchange data, `pull` lasts from the start of the first task until the function
of the last one has what it needs.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

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
    exchange_first: bool = False
    """Whether the last stage of the job computes and the others exchange data before it. If not, the first stage
    computes."""

    def own_ns(self, wall_ms: int) -> int:
        """A time of day on the monotonic clock, within the step."""
        return min(self.end_ns, max(self.start_ns, wall_ms * _MS - self.wall_offset_ns))


class StartCosts(NamedTuple):
    """What it costs to start a task and to notice its end, with an executor that is as quick as the quickest."""

    executor_ns: int
    scheduler_ns: int


class StepAccount(msgspec.Struct, frozen=True, kw_only=True):
    workers: dict[str, StepTimes]
    driver_ns: int
    """How long the driver worked while no task of the step did."""
    fetched_bytes: dict[str, int]
    """What the task that computed read from the shuffle files of other executors, by worker."""


def start_cost_ns(empty: Sequence[TaskRecord]) -> int:
    """What it costs an executor to start a task, from tasks that did nothing: the median of the quickest executor."""
    by_executor: dict[str, list[int]] = {}
    for task in empty:
        by_executor.setdefault(task.executor, []).append(task.deserialize_ms + task.run_ms - task.gc_ms)
    return int(min((median(times) for times in by_executor.values()), default=0) * _MS)


def account(
    marks: StepMarks, job: JobRecord, shares: Sequence[Share], tasks: Sequence[str], start_cost_ns: int = 0
) -> StepAccount:
    """The times of each task's step. `tasks` are the names of all workers, by their number."""
    stages = sorted({task.stage for task in job.tasks}) or [0]
    computing = stages[-1] if marks.exchange_first else stages[0]
    first = {task.partition: task for task in job.tasks if task.stage == computing}
    by_worker: dict[str, Share] = {}
    without_own: list[Share] = []
    for share in shares:
        # On a cluster that is not the run's own, an executor belongs to no task: worker and share are the same there.
        worker = share.task if share.task and share.task in tasks else tasks[share.worker]
        if worker in by_worker:
            without_own.append(share)  # Computed in place of a worker that is away.
        else:
            by_worker[worker] = share
    # A slow executor is late to take its task and to report the end. What it needs beyond the others is its own time.
    costs = StartCosts(start_cost_ns, min((task.scheduler_ms for task in first.values()), default=0) * _MS)
    workers: dict[str, StepTimes] = {}
    fetched: dict[str, int] = {}
    for worker in tasks:
        own = by_worker.get(worker)
        if own is None:
            loss = without_own.pop(0).loss if without_own else float("nan")
            workers[worker] = StepTimes(marks.step, marks.update, loss, marks.start_ns, marks.end_ns)
        else:
            task = first.get(own.worker)
            others = _other_stages(job, task)
            times = _worker_times(marks, task, [] if marks.exchange_first else others, own, costs)
            workers[worker] = _with_exchange(times, marks, others, costs) if marks.exchange_first else times
            fetched[worker] = task.fetched_bytes if task else 0
    last_finish = max((marks.own_ns(task.finish_ms) for task in job.tasks), default=marks.end_ns)
    driver_ns = (marks.broadcast_ns - marks.start_ns) + (marks.end_ns - last_finish)
    return StepAccount(workers=workers, driver_ns=driver_ns, fetched_bytes=fetched)


def _other_stages(job: JobRecord, own: TaskRecord | None) -> list[TaskRecord]:
    """The tasks of other stages on the executor that computed this share."""
    return [task for task in job.tasks if own and task.stage != own.stage and task.executor == own.executor]


def _with_exchange(times: StepTimes, marks: StepMarks, exchange: Sequence[TaskRecord], costs: StartCosts) -> StepTimes:
    """The times of a worker whose exchange ran in tasks before the one that computes: `pull` begins with them."""
    if not exchange:
        return times
    launched = max(marks.broadcast_ns, marks.own_ns(min(task.launch_ms for task in exchange)))
    started = min(launched + costs.executor_ns, times.launch_ns)
    return msgspec.structs.replace(
        times,
        launch_ns=started,
        pull_ns=times.pull_ns + times.launch_ns - started,
        scheduler_ns=started - marks.broadcast_ns + costs.scheduler_ns,
    )


def _worker_times(
    marks: StepMarks, task: TaskRecord | None, later: Sequence[TaskRecord], share: Share, costs: StartCosts
) -> StepTimes:
    inside_ns = share.pull_ns + share.data_ns + share.compute_ns
    if task is None:  # The listener has lost the event: only the function's own times are known.
        launch = max(marks.broadcast_ns, marks.end_ns - inside_ns)
        return StepTimes(
            marks.step, marks.update, share.loss, marks.start_ns, marks.end_ns, launch,
            share.pull_ns, share.data_ns, share.compute_ns,
        )  # fmt: skip
    launched = marks.own_ns(task.launch_ms)
    # What the executor needed beside the function: starting the task, fetching the broadcast and passing it to Python.
    beside_ns = max(0, task.run_ms * _MS - inside_ns)
    gc_ns = min(task.gc_ms * _MS, beside_ns)
    beside_ns += (task.deserialize_ms + task.scheduler_ms) * _MS - costs.scheduler_ns - gc_ns
    starting_ns = min(costs.executor_ns, beside_ns)
    started = min(marks.end_ns, launched + starting_ns)
    push_ns = (task.serialize_ms + task.getting_result_ms) * _MS
    push_ns += sum((one.finish_ms - one.launch_ms) * _MS for one in later)
    waited_ns = max(0, started - marks.broadcast_ns) + costs.scheduler_ns
    times = _fitted(
        marks.end_ns - started,
        beside_ns - starting_ns + share.pull_ns,
        share.data_ns,
        share.compute_ns,
        gc_ns,
        push_ns,
    )
    pull_ns, data_ns, compute_ns, gc_ns, push_ns = times
    return StepTimes(
        marks.step, marks.update, share.loss, marks.start_ns, marks.end_ns, started,
        pull_ns, data_ns, compute_ns, push_ns, waited_ns, gc_ns,
    )  # fmt: skip


def _fitted(available_ns: int, *durations_ns: int) -> list[int]:
    """The durations one after the other, cut where the step ends: Spark's times are whole milliseconds."""
    fitted = []
    for duration_ns in durations_ns:
        fitted.append(min(duration_ns, max(0, available_ns)))
        available_ns -= fitted[-1]
    return fitted
