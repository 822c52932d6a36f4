"""Reads Spark's event log while the driver writes it: what each job's tasks did, by Spark's own task metrics.

Spark writes the log in files of about 10 MB. A file is removed once it is read and the next one has begun, so that a
long run does not fill the disk.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

_FILE = re.compile(r"events_(\d+)_.*")
_WANTED = tuple(
    f'{{"Event":"SparkListener{name}"'.encode() for name in ("JobStart", "JobEnd", "TaskEnd", "ExecutorRemoved")
)
GROUP = "spark.jobGroup.id"
"""The property of a job under which it can be found again."""
EMPTY_TASK = "empty-task"
"""The group of the jobs whose tasks do nothing."""


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One task that Spark ran. Times of day are in ms since 1970 on the driver's clock, durations in ms."""

    stage: int
    partition: int
    executor: str
    launch_ms: int
    finish_ms: int
    deserialize_ms: int = 0
    run_ms: int = 0
    gc_ms: int = 0
    serialize_ms: int = 0
    getting_result_ms: int = 0
    fetch_wait_ms: int = 0
    result_bytes: int = 0
    fetched_bytes: int = 0
    """Read from the shuffle files of other executors."""
    between_ms: int = 0
    """If several tasks are counted as one: the time between them."""

    @property
    def scheduler_ms(self) -> int:
        """Spark's scheduler delay: the time between launch and end in which the executor did not work on the task."""
        worked = self.deserialize_ms + self.run_ms + self.serialize_ms + self.getting_result_ms + self.between_ms
        return max(0, self.finish_ms - self.launch_ms - worked)


class JobRecord(msgspec.Struct, kw_only=True):
    """One job that has ended."""

    job: int
    group: str | None
    submitted_ms: int
    ended_ms: int = 0
    stages: list[int]
    tasks: list[TaskRecord] = []
    """Those that succeeded, in the order in which they ended."""
    failed_tasks: int = 0


class EventLog:
    """The events of one application."""

    def __init__(self, directory: Path, task_cpus: int = 1) -> None:
        """`task_cpus`: the cores of each task (spark.task.cpus)."""
        self._directory, self._task_cpus = directory, task_cpus
        self._number, self._rest = 0, b""
        self._file: BinaryIO | None = None
        self._jobs: dict[int, JobRecord] = {}
        self._job_of_stage: dict[int, int] = {}
        self.executors_lost = 0
        """Executors that ended before the application did."""
        self.failed_tasks = 0

    def ended_jobs(self) -> list[JobRecord]:
        """The jobs that have ended since the last call."""
        return [job for line in self._new_lines() if (job := self._read(line))]

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _read(self, line: bytes) -> JobRecord | None:
        """Take in one event; the job if it is the end of a job."""
        if not line.startswith(_WANTED):
            return None
        event: dict[str, Any] = msgspec.json.decode(line)
        match event["Event"]:
            case "SparkListenerJobStart":
                stages = list(event.get("Stage IDs", []))
                job = event["Job ID"]
                group = (event.get("Properties") or {}).get(GROUP)
                self._jobs[job] = JobRecord(
                    job=job, group=group, submitted_ms=event["Submission Time"], stages=stages, tasks=[]
                )
                # A stage that an earlier job has made belongs to that job.
                for stage in stages:
                    self._job_of_stage[stage] = job
            case "SparkListenerTaskEnd":
                self._task_ended(event)
            case "SparkListenerExecutorRemoved":
                self.executors_lost += 1
            case "SparkListenerJobEnd":
                ended = self._jobs.pop(event["Job ID"], None)
                if ended:
                    ended.ended_ms = event["Completion Time"]
                    for stage in ended.stages:
                        self._job_of_stage.pop(stage, None)
                return ended
        return None

    def _task_ended(self, event: dict[str, Any]) -> None:
        job = self._jobs.get(self._job_of_stage.get(event["Stage ID"], -1))
        succeeded = (event.get("Task End Reason") or {}).get("Reason") == "Success"
        if not succeeded:
            self.failed_tasks += 1
        if job is None:
            return
        if succeeded:
            job.tasks.append(_task_record(event, self._task_cpus))
        else:
            job.failed_tasks += 1

    def _new_lines(self) -> Iterator[bytes]:
        while True:
            if self._file is None and not self._open_next():
                return
            assert self._file
            # Spark begins the next file after it has written the last line of this one.
            is_complete = self._number + 1 in self._files()
            *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
            yield from lines
            if not is_complete:
                return
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
            self._file = None

    def _files(self) -> dict[int, Path]:
        paths = self._directory.glob("*/events_*")
        return {int(match[1]): path for path in paths if (match := _FILE.fullmatch(path.name))}

    def _open_next(self) -> bool:
        path = self._files().get(self._number + 1)
        if path is None:
            return False
        self._number, self._file, self._rest = self._number + 1, path.open("rb"), b""
        return True


def _task_record(event: dict[str, Any], cpus: int) -> TaskRecord:
    info, metrics = event["Task Info"], event.get("Task Metrics") or {}
    read = metrics.get("Shuffle Read Metrics") or {}
    getting = info.get("Getting Result Time") or 0
    return TaskRecord(
        stage=event["Stage ID"],
        partition=info.get("Partition ID", info["Index"]),
        executor=info["Executor ID"],
        launch_ms=info["Launch Time"],
        finish_ms=info["Finish Time"],
        deserialize_ms=metrics.get("Executor Deserialize Time", 0),
        # Spark multiplies the time with the number of cores of the task.
        run_ms=metrics.get("Executor Run Time", 0) // cpus,
        gc_ms=metrics.get("JVM GC Time", 0),
        serialize_ms=metrics.get("Result Serialization Time", 0),
        getting_result_ms=info["Finish Time"] - getting if getting else 0,
        fetch_wait_ms=read.get("Fetch Wait Time", 0),
        result_bytes=metrics.get("Result Size", 0),
        fetched_bytes=read.get("Remote Bytes Read", 0),
    )
