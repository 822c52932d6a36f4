"""Real runs on Spark. One starts a single JVM; those with a cluster are slow."""

import os
import re
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
import psutil
import pytest

import paceline
from paceline.engines.registry import engines
from paceline.engines.spark import gradient_task, secrets
from paceline.engines.spark.environment import PYTHON, SparkHome
from paceline.engines.spark.gradient_task import GradientTask, RowsTask
from paceline.engines.spark.java import problems
from paceline.errors import PacelineError
from paceline.store.result import Result
from paramserver.running_server import JOB

pytestmark = [
    pytest.mark.skipif(not engines()["spark"].installed, reason="pyspark is not installed"),
    pytest.mark.skipif(bool(problems()), reason="; ".join(problems())),
    pytest.mark.timeout(900),
]
MARK = "PACELINE_SPARK_SCRATCH"
"""An environment variable of every process that belongs to a Spark cluster of Paceline."""


class Stopped(Exception):
    pass


def refuse(_: object) -> None:
    raise Stopped


class Broadcast(NamedTuple):
    value: object


def losses(result: Result) -> np.ndarray:
    """The loss of the global batch in each step."""
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    return steps.group_by("step").agg(pl.col("loss").mean()).sort("step")["loss"].to_numpy()


def processes_of(result: Result) -> list[str]:
    """Processes that still run with files of this run."""
    left = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, "").startswith(result.dir):
                left.append(process.name())
        except psutil.Error:
            continue
    return left


def collect_command_lines(lines: set[str], over: threading.Event) -> None:
    while not over.wait(0.05):
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                lines.add(" ".join(process.cmdline()))


def check_nothing_left(result: Result) -> None:
    assert processes_of(result) == []
    assert not (Path(result.dir) / "spool").exists()


def test_losses_are_those_of_ps_sync_in_one_jvm(run_one: Callable[..., Result]) -> None:
    common = {"layout": "pw w", "batch": 50, "stop": "steps=4", "examples": 2000, "momentum": 0.5}
    spark = run_one(engine="spark", strategy="bsp-sgd", master="local[2]", **common)
    torch = run_one(engine="torch", strategy="ps-sync", **common)
    assert (spark.status, spark.updates, spark.reason) == ("ok", 4, None)
    assert np.abs(losses(spark) - losses(torch)).max() < 1e-5
    assert spark.final.loss == pytest.approx(torch.final.loss, rel=1e-4)
    assert spark.examples == torch.examples
    # Every phase of every worker is there; what is not the run's own could not be measured, and the result says so.
    for worker in spark.workers:
        assert worker.steps == 4
        assert {"data", "pull", "compute", "wait"} <= {name for name, seconds in worker.phases.items() if seconds > 0}
    assert spark.not_measured
    assert "openblas" in str(spark.details["numpy_blas"])
    assert spark.details["mllib_blas"]
    check_nothing_left(spark)


@pytest.mark.parametrize("task", [GradientTask, RowsTask])
def test_a_task_reads_all_of_its_input(task: type[GradientTask], monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark ends the Python process of a task that does not, and starts one for the next task."""
    monkeypatch.setattr(gradient_task, "worker_of", refuse)
    rows = iter([1, 2, 3])
    with pytest.raises(Stopped):
        next(iter(task(Broadcast(None), Broadcast(None), 0)(0, rows)))
    assert list(rows) == []


def test_python_of_executors_finds_its_modules_in_no_archive(tmp_path: Path) -> None:
    """Python reads the tables of contents of archives on its path again before every task."""
    home = SparkHome(msgspec.structs.replace(JOB, secrets=secrets.new_secrets()["ps"]), tmp_path)
    environment = {**home.environment(), "PYTHONPATH": "/lib/pyspark.zip:/jars/core.jar:/own"}
    command = [environment["PATH"].split(":")[0] + f"/{PYTHON}", "-c", "import sys; print(*sys.path, sep='\\n')"]
    path = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert "/own" in path
    assert not {"/lib/pyspark.zip", "/jars/core.jar"} & set(path)


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        ("lenet", "use tensorflow, torch (spark has no layer AveragePool or Conv or Flatten)"),
    ],
)
def test_a_workload_that_does_not_fit_is_refused_with_the_reason(workload: str, reason: str) -> None:
    with pytest.raises(PacelineError, match=re.escape(reason)):
        paceline.run(workload, engine="spark", strategy="bsp-sgd", layout="pw w")


@pytest.mark.slow
def test_cluster_of_three_workers(run_one: Callable[..., Result]) -> None:
    common = {"layout": "cluster2", "stop": "steps=30"}
    spark = run_one(engine="spark", strategy="bsp-sgd", **common)
    torch = run_one(engine="torch", strategy="ps-sync", **common)
    assert np.abs(losses(spark) - losses(torch)).max() < 1e-4
    # Each worker's own executor did its share.
    steps = pl.read_parquet(Path(spark.dir) / "steps.parquet")
    computed = steps.filter(pl.col("kind") == "compute").group_by("task").len()
    assert dict(computed.iter_rows()) == {"w0": 30, "w1": 30, "w2": 30}
    assert not spark.not_measured
    check_nothing_left(spark)


@pytest.mark.slow
def test_secret_is_on_no_command_line_and_in_no_log(run_one: Callable[..., Result], tmp_path: Path) -> None:
    seen: list[str] = []
    original = secrets.new_secrets

    def remember() -> dict[str, dict[str, str]]:
        made = original()
        seen.append(made["ps"][secrets.SPARK_SECRET])
        return made

    lines: set[str] = set()
    over = threading.Event()
    watching = threading.Thread(target=collect_command_lines, args=(lines, over))
    watching.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(secrets, "new_secrets", remember)
            result = run_one(engine="spark", strategy="bsp-sgd", layout="pw", stop="steps=3")
    finally:
        over.set()
        watching.join()
    (secret,) = seen
    assert result.status == "ok"
    for process in ("deploy.worker.Worker", "CoarseGrainedExecutorBackend", "PythonGatewayServer"):
        assert any(process in line for line in lines), process
    assert not [line for line in lines if secret in line]
    for folder, _, names in os.walk(result.dir):
        for name in names:
            assert secret.encode() not in (Path(folder) / name).read_bytes(), name


@pytest.mark.slow
def test_a_killed_executor_is_replaced_and_the_losses_stay_the_same(run_one: Callable[..., Result]) -> None:
    common = {"layout": "pw w w", "stop": "steps=300"}
    spark = run_one(engine="spark", strategy="bsp-sgd", fault="kill w1 at step 20", **common)
    torch = run_one(engine="torch", strategy="ps-sync", **common)
    assert spark.status == "ok"
    assert any("w1 on h2 was killed by SIGKILL" in incident.what for incident in spark.incidents)
    (fault,) = spark.faults
    assert fault.detected_s is not None
    assert fault.restarted_s is not None
    assert spark.details["executors_lost"] == 1
    # Spark gave the lost tasks to other executors: nothing was lost or repeated.
    assert not spark.tainted
    recorded = losses(spark)
    assert np.nanmax(np.abs(recorded - losses(torch)[: len(recorded)])) < 1e-3
    check_nothing_left(spark)


@pytest.mark.slow
def test_lbfgs_needs_few_iterations(run_one: Callable[..., Result]) -> None:
    result = run_one(
        engine="spark", strategy="lbfgs", layout="pw w", stop="loss=0.5", eval_every=5, examples=6000, master="local[2]"
    )
    assert (result.status, result.reason) == ("ok", None)
    assert result.reached
    assert result.reached.rule == "loss=0.5"
    assert result.updates <= 30
    assert result.examples_per_update == 6000
    for worker in result.workers:
        assert worker.steps == result.updates
        assert worker.phases["compute"] > 0


@pytest.mark.slow
def test_rows_of_a_sparse_model(tmp_path: Path) -> None:
    common: dict[str, Any] = {"layout": "pw w", "stop": "steps=5", "runs": str(tmp_path / "runs"), "batch": 20}
    (spark,) = paceline.run("sparse-logreg", engine="spark", strategy="bsp-sgd", master="local[2]", **common)
    (torch,) = paceline.run("sparse-logreg", engine="torch", strategy="ps-sync", **common)
    assert np.abs(losses(spark) - losses(torch)).max() < 1e-5
    # A step moves about 39 x 20 rows of each worker, not 33 million.
    assert spark.exchanged
    assert spark.exchanged.received_mb_per_update < 0.1
