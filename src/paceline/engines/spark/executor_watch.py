"""Ends a run whose executors have all failed. Spark would start new ones without end, or wait for them without end."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JError

from paceline.engines.spark.executor_ends import is_out_of_memory
from paceline.engines.spark.java_errors import JavaError, out_of_memory
from paceline.plan.roles import WORKER, task_names
from paceline.train.context import Job

ENDS_IN_A_ROW = 3
"""The executors of every worker must have ended this often, and no task have succeeded meanwhile."""
WAIT_S = 6.0
"""The run fails if a cluster that is not its own has no executor for this long. The watchdog would end the run later,
as stuck, and would not name the cause."""
_POLL_S = 1.0
_TOGETHER_MS = 10_000
_IS_ENDING, _END_S = "ThreadPoolExecutor", 5.0


class ExecutorLosses:
    """Decides whether the executors of the run's own cluster have failed for good."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self._tasks = tasks
        self._ended: Counter[str] = Counter()
        """By the task of the worker; since a task of Spark last succeeded."""
        self._first: tuple[str, str] | None = None

    def succeeded(self) -> None:
        """A task of Spark has succeeded since the last executor ended."""
        self._ended.clear()
        self._first = None

    def ended(self, task: str, why: str) -> tuple[str, str] | None:
        """An executor of this worker has ended. Returns whose ended first and why, if the run has failed."""
        # Another executor with the same heap would need the same memory.
        self._ended[task] += ENDS_IN_A_ROW if is_out_of_memory(why) else 1
        self._first = self._first or (task, why)
        if any(self._ended[one] < ENDS_IN_A_ROW for one in self._tasks):
            return None
        return self._first


class ExecutorAbsence:
    """Decides whether another cluster has lost all executors of the run for good. Times are in seconds."""

    def __init__(self) -> None:
        self._had_any = False
        self._none_since_s: float | None = None

    def seen(self, executors: int, now_s: float) -> bool:
        """Take in how many executors there are now; returns whether the run has failed."""
        self._had_any = self._had_any or executors > 0
        if executors or not self._had_any:
            self._none_since_s = None
            return False
        if self._none_since_s is None:
            self._none_since_s = now_s
        return now_s - self._none_since_s >= WAIT_S


class Executor(NamedTuple):
    """What Spark knows of an executor, also after it is lost."""

    completed_tasks: int
    removed_ms: int
    why_removed: str


def first_lost(executors: Sequence[Executor]) -> str:
    """Why the first of those executors was lost that were lost last, at about the same time."""
    lost = sorted((executor for executor in executors if executor.removed_ms), key=lambda one: one.removed_ms)
    together = [one for one in lost if one.removed_ms >= lost[-1].removed_ms - _TOGETHER_MS]
    why = next((one.why_removed.splitlines()[0] for one in together if one.why_removed), "")
    return f"the first: {why}" if why else "Spark does not say why"


class ExecutorWatch:
    """A thread of the driver that ends the driver's JVM, and with it the run, once all executors have failed."""

    def __init__(self, job: Job, end_jvm: Callable[[], None]) -> None:
        self._job, self._end_jvm = job, end_jvm
        self._losses, self._absence = ExecutorLosses(task_names(WORKER, job.workers)), ExecutorAbsence()
        self._ends: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._spark: Any = None
        self._completed = 0
        self._out_of_memory = threading.Event()
        self.reason: str | None = None
        self._thread = threading.Thread(target=self._run, name="executor-watch", daemon=True)
        self._thread.start()

    def ended(self, task: str, why: str) -> None:
        """A worker of the run's own cluster reports that its executor has ended."""
        if is_out_of_memory(why):
            self._out_of_memory.set()
        self._ends.put((task, why))

    def begin(self, spark: Any) -> None:
        """`spark`, the SparkContext, is there."""
        self._spark = spark

    def close(self) -> None:
        self._ends.put(None)
        self._thread.join()

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Raise the reason for which the JVM was ended in the place of the errors that followed from it."""
        try:
            yield
        except Exception as error:
            if self.reason is None and _IS_ENDING in str(error) and self._out_of_memory.wait(_END_S):
                # The executor has begun to end, and refuses tasks until it has.
                self.reason = out_of_memory(self._job, in_executor=True)
            if self.reason is None:
                raise
            raise JavaError(self.reason) from error

    def _run(self) -> None:
        while self.reason is None:
            try:
                end = self._ends.get(timeout=_POLL_S)
            except queue.Empty:
                self.reason = self._why_absent()
            else:
                if end is None:
                    return
                self.reason = self._why_lost(*end)
        self._end_jvm()

    def _why_lost(self, task: str, why: str) -> str | None:
        completed = sum(executor.completed_tasks for executor in self._executors())
        if completed > self._completed:
            self._completed = completed
            self._losses.succeeded()
        first = self._losses.ended(task, why)
        if first is None:
            return None
        if is_out_of_memory(first[1]):
            return out_of_memory(self._job, in_executor=True)
        return f"the executors of all workers failed again and again; the first was that of {first[0]}: {first[1]}"

    def _why_absent(self) -> str | None:
        if "master" not in self._job.options or self._spark is None:
            return None
        try:
            jvm = self._spark._jsc.sc()
            # The driver is one of them; without a cluster it is the only one.
            is_over = not jvm.isLocal() and self._absence.seen(
                jvm.getExecutorMemoryStatus().size() - 1, time.monotonic()
            )
        except (Py4JError, OSError):  # The JVM has ended.
            return None
        if not is_over:
            return None
        return f"all executors are lost, and none came back within {WAIT_S:.0f} s; {first_lost(self._executors())}"

    def _executors(self) -> list[Executor]:
        """All executors that the application has had."""
        if self._spark is None:
            return []
        try:
            found = self._spark._jsc.sc().statusStore().executorList(False)
            return [_executor(found.apply(number)) for number in range(found.size())]
        except (Py4JError, OSError):  # The JVM has ended.
            return []


def _executor(summary: Any) -> Executor:
    removed, why = summary.removeTime(), summary.removeReason()
    return Executor(
        completed_tasks=summary.completedTasks(),
        removed_ms=removed.get().getTime() if removed.isDefined() else 0,
        why_removed=why.get() if why.isDefined() else "",
    )
