"""Tasks killed in real runs that may restart them: training continues, and the updates are counted correctly."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from paceline.store.paths import RunPaths
from support.fault_table import FaultObserver
from support.live_run import LiveRun, RunOne, wait_for

SLOW = pytest.mark.slow


def kill_during_training(run: LiveRun, victim: str) -> tuple[int, dict[str, Any]]:
    """Kill a task during training; the exit code and the result of the run, which must leave nothing behind."""
    run.wait_until_training()
    observer = FaultObserver(run, f"kill {victim}")
    run.kill(victim)
    return observer.wait_for_end()


def steps_of(result: dict[str, Any], task: str) -> int:
    return int(next(worker["steps"] for worker in result["workers"] if worker["task"] == task))


@pytest.mark.parametrize(
    ("layout", "victim", "transport"),
    [("pw w w", "w1", "memory"), ("p w w", "w0", "memory"), pytest.param("pw w w", "w2", "tcp", marks=SLOW)],
)
def test_killed_worker_of_an_asynchronous_run_is_restarted(
    tmp_path: Path, layout: str, victim: str, transport: str
) -> None:
    flags = ["--strategy", "ps-async", "--layout", layout, "--stop", "steps=20000", "--set", f"transport={transport}"]
    run = LiveRun(tmp_path, *flags)
    code, result = kill_during_training(run, victim)
    assert (code, result["status"], result["updates"], result["tainted"]) == (0, "ok", 20000, False)
    # The last of its steps may have been applied but not recorded when the worker was killed.
    assert sum(worker["steps"] for worker in result["workers"]) == 20000 - result["unrecorded_steps"]
    assert result["unrecorded_steps"] <= 1
    assert [incident["task"] for incident in result["incidents"]] == [victim]
    (restarting,), (recovered,) = run.events_named("restarting"), run.events_named("back")
    assert (restarting["tasks"], recovered["tasks"]) == ([victim], [victim])
    assert recovered["t_s"] - restarting["t_s"] < 5
    # The bytes of its first process are lost, and so are not divided among its steps: a gradient has 7,850 floats.
    exchanged = {worker["task"]: worker["exchanged"] for worker in result["workers"]}
    assert exchanged[victim]["steps"] < steps_of(result, victim)
    for counted in exchanged.values():
        assert counted["sent_mb"] / counted["steps"] == pytest.approx(0.0314, rel=0.02)
    assert result["exchanged"]["sent_mb_per_update"] == pytest.approx(0.0314, rel=0.02)
    # The other workers made steps while it was restarted.
    steps = kept_steps(result)
    assert len(steps) == steps.select("task", "step").n_unique() == 20000 - result["unrecorded_steps"]
    during_restart = steps.filter(pl.col("t_s").is_between(restarting["t_s"], recovered["t_s"]))
    assert set(during_restart["task"]) == {worker["task"] for worker in result["workers"]} - {victim}


def test_killed_worker_of_a_synchronous_run_repeats_its_step(tmp_path: Path) -> None:
    flags = ["--strategy", "ps-sync", "--layout", "pw w w", "--stop", "steps=1500", "--set", "momentum=0.5"]
    expected = run_without_fault(tmp_path / "whole", "logreg", flags)
    run = LiveRun(tmp_path / "cut", *flags, "--on-failure", "restart")
    code, result = kill_during_training(run, "w1")
    assert (code, result["status"], result["updates"], result["tainted"]) == (0, "ok", 1500, False)
    assert [worker["steps"] for worker in result["workers"]] == [1500] * 3
    assert_same_parameters(result, expected)


@pytest.mark.parametrize(
    ("engine", "strategy", "layout", "victim", "steps"),
    [
        ("torch", "allreduce", "w w", "w1", 1500),
        ("tensorflow", "ps-sync", "pw w", "w1", 600),
        pytest.param("torch", "single", "w", "w0", 8000, marks=SLOW),
        pytest.param("torch", "ps-sync", "pw w", "w0", 2000, marks=SLOW),
        pytest.param("tensorflow", "ps-async", "pw w", "ps0", 1500, marks=SLOW),
        pytest.param("tensorflow", "allreduce", "w w", "w0", 600, marks=SLOW),
    ],
)
def test_all_tasks_restart_from_the_last_checkpoint(
    tmp_path: Path, engine: str, strategy: str, layout: str, victim: str, steps: int
) -> None:
    every = steps // 30
    run = LiveRun(
        tmp_path, "--engine", engine, "--strategy", strategy, "--layout", layout, "--stop", f"steps={steps}",
        "--checkpoint-every", str(every), "--on-failure", "restart",
    )  # fmt: skip
    wait_for(lambda: run.events() and RunPaths(run.directory).checkpoints_newest_first(), "a checkpoint exists")
    code, result = kill_during_training(run, victim)
    assert (code, result["status"], result["updates"]) == (0, "ok", steps)
    assert result["tainted"]
    (restored,) = run.events_named("restored")
    assert restored["update"] >= every
    assert restored["lost"] < steps
    kept = kept_steps(result)
    made = steps * (len(result["workers"]) if result["synchronous"] else 1)
    assert len(kept) == kept.select("task", "step").n_unique() == made - result["unrecorded_steps"]
    assert [incident["task"] for incident in result["incidents"]] == [victim, None]
    assert f"restart from update {restored['update']}" in result["incidents"][1]["what"]


@pytest.mark.parametrize(
    ("workload", "strategy", "layout", "victim", "transport", "steps"),
    [
        ("logreg", "ps-async", "p w w", "ps0", "memory", 8000),
        ("logreg", "ps-sync", "pw pw", "ps1", "tcp", 1500),
        pytest.param("logreg", "ps-sync", "pw pw", "ps1", "memory", 1500, marks=SLOW),
        pytest.param("logreg", "ps-sync", "pw w", "w0", "memory", 1500, marks=SLOW),
        pytest.param("logreg", "ps-async", "p p w w", "ps1", "tcp", 8000, marks=SLOW),
        pytest.param("lenet", "ps-sync", "p w w", "ps0", "memory", 300, marks=SLOW),
        pytest.param("sparse-logreg", "ps-async", "p p w w", "ps1", "memory", 1500, marks=SLOW),
        pytest.param("sparse-logreg", "ps-sync", "p w w", "ps0", "tcp", 1500, marks=SLOW),
    ],
)
def test_workers_continue_with_a_restarted_server(
    tmp_path: Path, workload: str, strategy: str, layout: str, victim: str, transport: str, steps: int
) -> None:
    flags = ["--strategy", strategy, "--layout", layout, "--stop", f"steps={steps}", "--set", f"transport={transport}"]
    flags += ["--set", "momentum=0.5"] if workload == "logreg" else []
    every = steps // 30
    run = LiveRun(
        tmp_path, *flags, "--checkpoint-every", str(every), "--on-failure", "restart", workload=workload,
    )  # fmt: skip
    wait_for(lambda: run.events() and RunPaths(run.directory).checkpoints_newest_first(), "a checkpoint exists")
    code, result = kill_during_training(run, victim)
    assert (code, result["status"], result["updates"], result["tainted"]) == (0, "ok", steps, True)
    steps_made = [worker["steps"] for worker in result["workers"]]
    assert steps_made == [steps] * len(steps_made) if strategy == "ps-sync" else sum(steps_made) == steps
    # Only the servers and the killed task are new processes.
    restarted = {task for task in {event["task"] for event in run.events_named("started")} if was_restarted(run, task)}
    assert restarted == {victim, *(f"ps{number}" for number in range(layout.count("p")))}
    kept = kept_steps(result)
    assert len(kept) == kept.select("task", "step").n_unique() == sum(steps_made)
    if strategy == "ps-sync":
        assert_same_parameters(result, run_without_fault(tmp_path / "whole", workload, flags))


def kept_steps(result: dict[str, Any]) -> pl.DataFrame:
    """The rows of the steps that were not undone by a return to a checkpoint."""
    table = pl.read_parquet(Path(result["dir"]) / "steps.parquet")
    return table.filter((pl.col("kind") == "step") & pl.col("undone").not_())


def was_restarted(run: LiveRun, task: str) -> bool:
    return len([event for event in run.events_named("started") if event["task"] == task]) > 1


def run_without_fault(runs: Path, workload: str, flags: list[str]) -> dict[str, Any]:
    code, result = LiveRun(runs, *flags, workload=workload).result()
    assert code == 0, result
    return result


def assert_same_parameters(one: dict[str, Any], other: dict[str, Any]) -> None:
    actual, expected = (load_file(Path(run["dir"]) / "checkpoints" / "final.safetensors") for run in (one, other))
    assert max(float(np.abs(expected[name] - actual[name]).max()) for name in expected) < 1e-5


@pytest.mark.netns
def test_backup_workers_avoid_waiting_for_a_slow_worker(run_one: RunOne) -> None:
    fields = {"strategy": "ps-sync", "layout": "p w w w", "hosts": "netns", "cpus": "- - - 0.1", "stop": "seconds=4"}
    without_backup, with_backup = run_one(**fields), run_one(**fields, backup=1)
    assert (without_backup.status, with_backup.status) == ("ok", "ok")
    assert with_backup.updates_per_s > 1.5 * without_backup.updates_per_s
    slow = with_backup.workers[2]
    assert slow.dropped > 0
    assert slow.steps < min(worker.steps for worker in with_backup.workers[:2])
    assert with_backup.updates >= max(worker.steps for worker in with_backup.workers)
    assert with_backup.examples == 100 * sum(worker.steps for worker in with_backup.workers)


def test_run_fails_after_the_maximum_number_of_restarts(tmp_path: Path) -> None:
    flags = ["--strategy", "ps-async", "--layout", "pw w", "--stop", "seconds=600", "--restarts", "1"]
    run = LiveRun(tmp_path, *flags)
    run.wait_until_training()
    run.kill("w1")
    wait_for(lambda: run.events_named("back"), "the worker is restarted")
    new_pid = run.events_named("started")[-1]["pid"]
    killed_at = time.monotonic()
    os.kill(new_pid, signal.SIGKILL)
    code, result = run.result()
    assert time.monotonic() - killed_at < 5
    assert (code, result["status"], result["reason"]) == (1, "failed", "w1 on h2 was killed by SIGKILL")
    assert [incident["task"] for incident in result["incidents"]] == ["w1", "w1"]
