"""Errors of Spark's JVM are told in one line, with what to do."""

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("py4j")

import paceline
from paceline.engines.spark.java import problems
from paceline.engines.spark.java_errors import JavaError, describe
from paceline.engines.spark.passing_errors import may_pass
from paramserver.running_server import JOB

CALL = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: "
ABORTED = "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 8 times"
LOST = f"{CALL}{ABORTED}, most recent failure: Lost task 0.7 (TID 7): ExecutorLostFailure (executor 3 exited) Reason: "


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"{LOST}Command exited with code 52\nDriver stacktrace:\n\tat org.apache.spark",
            "an executor of Spark ran out of memory with a heap of 540 MiB: raise --set executor_memory",
        ),
        (
            f"{CALL}java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays",
            "the driver of Spark ran out of memory with a heap of 3072 MiB: raise --set driver_memory",
        ),
        (f"{CALL}{ABORTED}\nDriver stacktrace:\n\tat org.apache.spark", ABORTED),
    ],
)
def test_a_java_error_is_one_line(text: str, line: str) -> None:
    job = msgspec.structs.replace(JOB, options={"executor_memory": "540m", "driver_memory": "3g"})
    assert describe(text, job) == line


def test_errors_in_what_was_asked_for_do_not_pass() -> None:
    assert may_pass(JavaError(ABORTED))
    assert not may_pass(JavaError("org.apache.spark.sql.AnalysisException: no such column"))


@pytest.mark.skipif(bool(problems()), reason="; ".join(problems()))
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_executor_without_enough_memory_is_named_in_the_reason(tmp_path: Path) -> None:
    (result,) = paceline.run(
        "sparse-logreg:dense", engine="spark", strategy="bsp-sgd", layout="p w", stop="steps=2", check=False,
        executor_memory="512m", driver_memory="3g", runs=str(tmp_path),
    )  # fmt: skip
    assert result.status == "failed"
    assert "an executor of Spark ran out of memory with a heap of 512 MiB" in str(result.reason)
