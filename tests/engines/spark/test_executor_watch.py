"""A run whose executors have all failed ends with the first cause; others go on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark")

from paceline.engines.spark import executor_watch
from paceline.engines.spark.executor_ends import ExecutorEnds, describe_code, first_error, is_out_of_memory
from paceline.engines.spark.executor_watch import (
    ENDS_IN_A_ROW,
    WAIT_S,
    Executor,
    ExecutorAbsence,
    ExecutorLosses,
    ExecutorWatch,
    first_lost,
)
from paceline.engines.spark.java_errors import JavaError
from paramserver.running_server import JOB

KILLED = "exit code 137 (killed by SIGKILL)"
OUT_OF_MEMORY = "exit code 52 (out of memory)"


def test_a_run_fails_once_the_executors_of_all_workers_end_again_and_again() -> None:
    losses = ExecutorLosses(("w0", "w1"))
    assert losses.ended("w1", KILLED) is None
    for _ in range(2 * ENDS_IN_A_ROW):
        assert losses.ended("w0", "exit code 1") is None
    for _ in range(ENDS_IN_A_ROW - 2):
        assert losses.ended("w1", "exit code 1") is None
    assert losses.ended("w1", "exit code 1") == ("w1", KILLED)


def test_a_task_that_succeeds_meanwhile_lets_the_run_go_on() -> None:
    losses = ExecutorLosses(("w0",))
    for _ in range(5):
        for _ in range(ENDS_IN_A_ROW - 1):
            assert losses.ended("w0", KILLED) is None
        losses.succeeded()
    for _ in range(ENDS_IN_A_ROW - 1):
        assert losses.ended("w0", "exit code 1") is None
    assert losses.ended("w0", KILLED) == ("w0", "exit code 1")


def test_another_executor_with_the_same_heap_is_not_tried_if_all_are_out_of_memory() -> None:
    losses = ExecutorLosses(("w0", "w1"))
    assert losses.ended("w0", OUT_OF_MEMORY) is None
    assert losses.ended("w1", OUT_OF_MEMORY) == ("w0", OUT_OF_MEMORY)


def test_a_cluster_of_the_user_may_be_without_executors_for_a_while() -> None:
    absence = ExecutorAbsence()
    assert not absence.seen(0, 0.0)
    assert not absence.seen(0, 10 * WAIT_S)  # None has ever come: the cluster may be busy.
    assert not absence.seen(2, 300.0)
    assert not absence.seen(0, 301.0)
    assert not absence.seen(1, 300.0 + WAIT_S)
    assert not absence.seen(0, 400.0)
    assert not absence.seen(0, 399.0 + WAIT_S)
    assert absence.seen(0, 400.0 + WAIT_S)


def test_the_first_cause_is_that_of_the_executors_that_were_lost_last() -> None:
    old = Executor(5, 1_000, "Command exited with code 1")
    first = Executor(5, 90_000, "Worker shutting down\nmore")
    second = Executor(0, 92_000, "Command exited with code 137")
    there = Executor(7, 0, "")
    assert first_lost([second, old, there, first]) == "the first: Worker shutting down"
    assert first_lost([]) == first_lost([Executor(1, 5, "")]) == "Spark does not say why"


@pytest.mark.parametrize(("why", "memory"), [(OUT_OF_MEMORY, True), (None, False)])
def test_tasks_that_an_executor_refuses_while_it_ends_are_told_as_its_lack_of_memory(
    why: str | None, memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_watch, "_END_S", 0.0)
    refused = "Task rejected from java.util.concurrent.ThreadPoolExecutor@25f[Shutting down, pool size = 1]"
    job = msgspec.structs.replace(JOB, workers=2, options={"executor_memory": "560m"})
    watch = ExecutorWatch(job, lambda: None)
    if why:
        watch.ended("w0", why)
    message = "ran out of memory with a heap of 560 MiB" if memory else "rejected"
    with pytest.raises(JavaError, match=message), watch.named_errors():
        raise JavaError(refused)
    watch.close()


@pytest.mark.parametrize(
    ("code", "text"), [(137, KILLED), (52, OUT_OF_MEMORY), (1, "exit code 1"), (250, "exit code 250")]
)
def test_exit_codes_of_executors(code: int, text: str) -> None:
    assert describe_code(code) == text
    assert is_out_of_memory(text) == (code == 52)


def test_the_log_of_a_worker_says_why_its_executors_ended(tmp_path: Path) -> None:
    home: Any = SimpleNamespace(executor_log=tmp_path / "executors.log", work=tmp_path / "work")
    ends = ExecutorEnds(home)
    assert ends.new() == []
    folder = home.work / "app-1" / "1"
    folder.mkdir(parents=True)
    (folder / "stderr").write_text(
        'Spark Executor Command: "java"\n========\nInvalid maximum heap size: -Xmx900000g\n'
        "Error: Could not create the Java Virtual Machine.\n"
    )
    killed = "Executor app-1/0 finished with state EXITED message Command exited with code 137 exitStatus 137\n"
    home.executor_log.write_text("Asked to launch executor app-1/0 for paceline\n" + killed[:50])
    assert ends.new() == []
    with home.executor_log.open("a") as log:
        log.write(killed[50:])
        log.write("Executor app-1/1 finished with state EXITED message Command exited with code 1 exitStatus 1\n")
        log.write("Executor app-1/2 finished with state FAILED message java.io.IOException: No space left on device\n")
        log.write("Executor app-1/3 finished with state KILLED exitStatus 143\n")
    assert ends.new() == [
        KILLED,
        "exit code 1: Error: Could not create the Java Virtual Machine.",
        "java.io.IOException: No space left on device",
    ]
    assert ends.new() == []


def test_the_first_line_that_names_an_error(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    assert first_error(log) == ""
    log.write_text("20:01:02 WARN Utils: slow\n20:01:03 ERROR Executor: cannot bind\njava.net.BindException: in use\n")
    assert first_error(log) == "20:01:03 ERROR Executor: cannot bind"
