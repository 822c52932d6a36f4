"""Real runs of which all executors are killed for good."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark")

from paceline.engines.registry import engines
from paceline.engines.spark.environment import PYTHON, spark_home
from paceline.engines.spark.java import java_command, problems
from support.live_run import LiveRun

pytestmark = [
    pytest.mark.skipif(not engines()["spark"].installed, reason="pyspark is not installed"),
    pytest.mark.skipif(bool(problems()), reason="; ".join(problems())),
    pytest.mark.timeout(600),
    pytest.mark.slow,
]
EXECUTOR = "CoarseGrainedExecutorBackend"
MOST_KILLED = 40
"""Far fewer executors than Spark starts in a minute if each is killed at once."""


def kill_executors_until_the_end(run: LiveRun) -> int:
    """Kill every executor as soon as there is one; returns their number."""
    killed: set[int] = set()
    while run.process.poll() is None:
        try:
            processes = run.process_tree()
        except psutil.NoSuchProcess:
            break
        for process in processes:
            try:
                if process.pid not in killed and any(EXECUTOR in argument for argument in process.cmdline()):
                    process.kill()
                    killed.add(process.pid)
            except psutil.Error:
                continue
    return len(killed)


@pytest.mark.parametrize("strategy", ["bsp-sgd", "lbfgs"])
def test_a_run_whose_executors_are_all_killed_ends_with_the_first_cause(tmp_path: Path, strategy: str) -> None:
    options = ["--engine", "spark", "--strategy", strategy, "--layout", "p w w", "--stop", "seconds=600"]
    run = LiveRun(tmp_path / "runs", *options)
    run.wait_until_training()
    killed = kill_executors_until_the_end(run)
    code, result = run.result()
    assert (code, result["status"]) == (1, "failed")
    assert "ps0 on h1 failed: the executors of all workers failed again and again" in result["reason"]
    assert result["reason"].endswith("exit code 137 (killed by SIGKILL)")
    assert 6 <= killed < MOST_KILLED


def test_executors_that_cannot_start_end_the_run_with_their_error(tmp_path: Path) -> None:
    options = ["--engine", "spark", "--strategy", "bsp-sgd", "--layout", "p w", "--stop", "steps=5"]
    memory = ["--set", "executor_memory=900000g", "--set", "driver_memory=1g"]
    run = LiveRun(tmp_path / "runs", *options, *memory)
    _, result = run.result()
    assert result["status"] == "failed"
    assert "the executors of all workers failed again and again" in result["reason"]
    assert "exit code 1" in result["reason"]


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A cluster that is not the run's own: the URL of its master, and its only worker."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / PYTHON).symlink_to(sys.executable)
    home = Path(spark_home())
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    java = [str(java_command()), "-cp", f"{home}/jars/*", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    deploy, url = "org.apache.spark.deploy", f"spark://127.0.0.1:{port}"
    master = subprocess.Popen([*java, f"{deploy}.master.Master", *common, "--port", str(port)], env=environment)
    worker = subprocess.Popen(
        [*java, f"{deploy}.worker.Worker", *common, "--cores", "2", "--memory", "2g", url], env=environment
    )
    yield url, worker
    for process in (worker, master):
        process.kill()
        process.wait()


def test_another_cluster_that_loses_all_executors_ends_the_run(
    tmp_path: Path, standalone: tuple[str, "subprocess.Popen[bytes]"]
) -> None:
    url, worker = standalone
    options = ["--engine", "spark", "--strategy", "bsp-sgd", "--layout", "pw w", "--stop", "seconds=600"]
    memory = ["--set", "executor_memory=600m", "--set", "driver_memory=600m"]
    run = LiveRun(tmp_path / "runs", *options, *memory, "--set", f"master={url}")
    run.wait_until_training()
    worker.kill()  # Its executors end with it.
    _, result = run.result()
    assert result["status"] == "failed"
    assert "all executors are lost, and none came back" in result["reason"]
