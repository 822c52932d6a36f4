"""Errors of Spark's JVM as messages of one line. py4j asks the JVM for a message only when it is shown, and by then the
JVM has ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError

from paceline.engines.spark.cluster import heap_mib_of
from paceline.errors import RunError
from paceline.train.context import Job

_OUT_OF_MEMORY = ("OutOfMemoryError", "exited with code 52")
"""Spark ends an executor that is out of memory with this code."""
_IN_AN_EXECUTOR = ("Lost task", "ExecutorLostFailure")


class JavaError(RunError):
    """What Spark raised in the driver's JVM."""


@contextmanager
def readable_errors(job: Job) -> Iterator[None]:
    """Raise a JavaError for an error of the JVM, while the JVM can still tell what it was."""
    try:
        yield
    except Py4JJavaError as error:
        text = str(error)
        raise JavaError(describe(text, job)) from error


def describe(text: str, job: Job) -> str:
    """What went wrong and what to do, from the message and stack trace of a Java error."""
    if any(sign in text for sign in _OUT_OF_MEMORY):
        return out_of_memory(job, in_executor=any(sign in text for sign in _IN_AN_EXECUTOR))
    return text.split("\n: ", 1)[-1].splitlines()[0]


def out_of_memory(job: Job, *, in_executor: bool) -> str:
    """That a heap is too small, and what to do."""
    process, option = ("an executor", "executor_memory") if in_executor else ("the driver", "driver_memory")
    return f"{process} of Spark ran out of memory with a heap of {heap_mib_of(job, option)} MiB: raise --set {option}"
