"""How Spark's task metrics become the phases of each worker."""

from pathlib import Path

import msgspec
import pytest

from paceline.engines.spark.event_log import EventLog, JobRecord, TaskRecord
from paceline.engines.spark.gradient_task import Share
from paceline.engines.spark.step_channel import DriverClock
from paceline.engines.spark.step_times import StepMarks, account, start_cost_ns

MS = 1_000_000
TASKS = ("w0", "w1")


def marks(*, exchange_first: bool = False) -> StepMarks:
    """A step from 0 to 100 ms; the job was submitted after 10 ms. The time of day is the monotonic clock plus 1 s."""
    return StepMarks(
        step=4,
        update=5,
        start_ns=0,
        broadcast_ns=10 * MS,
        end_ns=100 * MS,
        wall_offset_ns=1_000 * MS,
        exchange_first=exchange_first,
    )


def task(partition: int, launch_ms: int, finish_ms: int, stage: int = 7, **metrics: int) -> TaskRecord:
    return TaskRecord(
        stage=stage,
        partition=partition,
        executor=str(partition),
        launch_ms=1_000 + launch_ms,
        finish_ms=1_000 + finish_ms,
        **metrics,
    )


def job(*tasks: TaskRecord) -> JobRecord:
    return JobRecord(job=1, group="step-4", submitted_ms=1_010, ended_ms=1_090, stages=[7], tasks=list(tasks))


def share(worker: int, task_name: str | None, loss: float = 1.0) -> Share:
    return Share(worker, task_name, loss, pull_ns=2 * MS, data_ns=3 * MS, compute_ns=20 * MS)


def test_every_millisecond_of_a_task_belongs_to_one_phase() -> None:
    first = task(0, 15, 60, deserialize_ms=4, run_ms=33, gc_ms=5, serialize_ms=1, getting_result_ms=2)
    second = task(1, 15, 80, deserialize_ms=4, run_ms=55, serialize_ms=1)
    step = account(marks(), job(first, second), [share(0, "w0", 0.5), share(1, "w1", 0.7)], TASKS)
    w0 = step.workers["w0"]
    assert (w0.step, w0.update, w0.loss, w0.launch_ns) == (4, 5, 0.5, 15 * MS)
    # Of 33 ms of run time the function took 25; 5 of the other 8 were garbage collection.
    assert w0.pull_ns == (4 + 3 + 2) * MS
    assert (w0.data_ns, w0.compute_ns, w0.gc_ns, w0.push_ns) == (3 * MS, 20 * MS, 5 * MS, 3 * MS)
    # 5 ms until the task was launched, and 45 ms - 4 - 33 - 1 - 2 of scheduler delay, as in the other task.
    assert w0.scheduler_ns == (5 + 5) * MS
    # 10 ms of broadcast before, and 20 ms after the last task.
    assert step.driver_ns == 30 * MS


def test_the_cost_of_starting_a_task_is_waiting_for_the_scheduler() -> None:
    """It is known from empty tasks; what a task needs beyond that fetches and passes the parameters."""
    empty = [task(0, 0, 9, deserialize_ms=2, run_ms=ms, gc_ms=1) for ms in (5, 7, 90)]
    slow = [task(1, 0, 40, deserialize_ms=2, run_ms=30)]
    cost_ns = start_cost_ns(empty + slow)
    assert cost_ns == 8 * MS
    first = task(0, 15, 60, deserialize_ms=4, run_ms=33, serialize_ms=1)
    second = task(1, 15, 52, deserialize_ms=1, run_ms=29)
    step = account(marks(), job(first, second), [share(0, "w0"), share(1, "w1")], TASKS, cost_ns)
    w0, w1 = step.workers["w0"], step.workers["w1"]
    # 5 ms until the task was launched, 8 until it was started, and 45 - 4 - 33 - 1 of scheduler delay.
    assert (w0.launch_ns, w0.scheduler_ns) == ((15 + 8) * MS, (5 + 8 + 7) * MS)
    assert w0.pull_ns == (4 + 8 - 8 + 2) * MS
    # The second one needed no more than 5 ms beside its function.
    assert (w1.launch_ns, w1.pull_ns) == ((15 + 5) * MS, 2 * MS)
    assert start_cost_ns([]) == 0


def test_a_slow_executor_that_is_late_to_report_is_slow_itself() -> None:
    quick = task(0, 15, 45, run_ms=28)
    slow = task(1, 15, 85, run_ms=40)
    step = account(marks(), job(quick, slow), [share(0, "w0"), share(1, "w1")], TASKS)
    w0, w1 = step.workers["w0"], step.workers["w1"]
    # 5 ms until the launch, and 2 ms of delay, for both.
    assert w0.scheduler_ns == w1.scheduler_ns == 7 * MS
    assert w0.pull_ns == (3 + 2) * MS
    # 15 ms beside its function, and 30 - 2 ms of delay more than the other.
    assert w1.pull_ns == (15 + 2 + 28) * MS


def test_a_worker_that_is_away_has_a_step_without_work() -> None:
    tasks = task(0, 15, 40, run_ms=25), task(1, 40, 80, run_ms=40)
    step = account(marks(), job(*tasks), [share(0, "w0", 0.5), share(1, "w0", 0.7)], TASKS)
    away = step.workers["w1"]
    assert (away.loss, away.launch_ns, away.compute_ns) == (0.7, 0, 0)
    assert (away.start_ns, away.end_ns) == (0, 100 * MS)
    assert step.workers["w0"].loss == 0.5


def test_phases_end_with_the_step() -> None:
    """Spark's times are whole milliseconds, and may add up to more than there was."""
    step = account(marks(), job(task(0, 90, 99, run_ms=40)), [share(0, None), share(1, None)], TASKS)
    w0 = step.workers["w0"]
    assert w0.launch_ns + w0.pull_ns + w0.data_ns + w0.compute_ns + w0.gc_ns + w0.push_ns <= 100 * MS
    # Of the second task no event arrived: what its function measured is known all the same.
    assert step.workers["w1"].compute_ns == 20 * MS


def line(event: str, **fields: object) -> bytes:
    return msgspec.json.encode({"Event": f"SparkListener{event}", **fields}) + b"\n"


def task_end(index: int, reason: str = "Success") -> bytes:
    return line(
        "TaskEnd",
        **{
            "Stage ID": 3,
            "Task End Reason": {"Reason": reason},
            "Task Info": {
                "Index": index, "Executor ID": "1", "Launch Time": 10, "Finish Time": 50, "Getting Result Time": 45,
            },
            "Task Metrics": {"Executor Run Time": 20, "JVM GC Time": 2, "Executor Deserialize Time": 3},
        },
    )  # fmt: skip


def job_start(job_id: int, stages: list[int]) -> bytes:
    return line(
        "JobStart",
        **{
            "Job ID": job_id,
            "Submission Time": 5,
            "Stage IDs": stages,
            "Properties": {"spark.jobGroup.id": f"step-{job_id}"},
        },
    )


def test_event_log_is_read_while_it_grows_and_removed_behind(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    log = EventLog(tmp_path)
    assert log.ended_jobs() == []
    first, second = folder / "events_1_app-1", folder / "events_2_app-1"
    end = line("JobEnd", **{"Job ID": 8, "Completion Time": 60})
    first.write_bytes(job_start(8, [3]) + task_end(0) + task_end(1, "ExecutorLostFailure") + end[:20])
    assert log.ended_jobs() == []
    with first.open("ab") as file:
        file.write(end[20:] + job_start(9, [3]))
    (ended,) = log.ended_jobs()
    assert (ended.group, ended.submitted_ms, ended.ended_ms, ended.failed_tasks) == ("step-8", 5, 60, 1)
    (only,) = ended.tasks
    assert (only.run_ms, only.gc_ms, only.deserialize_ms, only.getting_result_ms) == (20, 2, 3, 5)
    assert only.scheduler_ms == 50 - 10 - 20 - 3 - 5
    second.write_bytes(task_end(0) + line("JobEnd", **{"Job ID": 9, "Completion Time": 61}))
    assert [job.job for job in log.ended_jobs()] == [9]
    assert not first.exists()
    assert log.failed_tasks == 1
    log.close()


def test_run_time_is_that_of_one_core(tmp_path: Path) -> None:
    """Spark multiplies it with the number of cores of a task."""
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    end = line("JobEnd", **{"Job ID": 8, "Completion Time": 60})
    (folder / "events_1_app-1").write_bytes(job_start(8, [3]) + task_end(0) + end)
    log = EventLog(tmp_path, task_cpus=4)
    (ended,) = log.ended_jobs()
    assert [(task.run_ms, task.gc_ms, task.deserialize_ms) for task in ended.tasks] == [(5, 2, 3)]
    log.close()


@pytest.mark.parametrize("difference_ns", [0, 5_000_000_000, -7_000_000_000])
def test_times_of_the_driver_are_converted_to_the_clock_of_the_worker(difference_ns: int) -> None:
    clock = DriverClock()
    for sent, took in ((0, 900_000), (1_000_000_000, 100_000), (2_000_000_000, 700_000)):
        clock.add(sent, sent + took // 2 + difference_ns, sent + took)
    assert clock.own_ns(3_000_000_000 + difference_ns) == 3_000_000_000
