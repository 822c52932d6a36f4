"""Runs on a real Slurm cluster whose nodes share no files with the controller."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.live_run import LiveRun, wait_for
from support.machines import Machine
from support.slurm import SlurmCluster

pytestmark = pytest.mark.slow
HOSTS = f"slurm:python={sys.executable},trusted=yes"
LAYOUTS = {"ps-sync": "pw w", "allreduce": "w w"}
LONG = ("--engine", "torch", "--strategy", "ps-sync", "--layout", "pw w", "--stop", "seconds=600")


def paceline(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "paceline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment, check=False)


def final_loss(environment: dict[str, str], runs: Path, strategy: str, hosts: str, *options: str) -> float:
    setup = ("--engine", "torch", "--strategy", strategy, "--layout", LAYOUTS[strategy], "--stop", "steps=20")
    completed = paceline(
        environment, "run", "logreg", "--runs", str(runs), "--json", "--hosts", hosts, *setup, *options
    )
    assert completed.returncode == 0, completed.stderr
    result: dict[str, Any] = json.loads(completed.stdout)
    assert [worker["host"] for worker in result["workers"]] == ["h1", "h2"]
    return float(result["final"]["loss"])


def inside(slurm: SlurmCluster, job: str) -> dict[str, str]:
    """The environment of a shell in an allocation of both nodes."""
    return {**slurm.environment(), "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NTASKS": "2"}


def start(slurm: SlurmCluster, runs: Path, *options: str, hosts: str = HOSTS) -> LiveRun:
    launcher = ["env", *(f"{name}={value}" for name, value in slurm.environment().items() if name != "_")]
    return LiveRun(runs, *LONG, "--hosts", hosts, *options, launcher=launcher)


def assert_nothing_left(slurm: SlurmCluster) -> None:
    """No job, no process of a run on a node, and no private directory of an agent."""
    wait_for(lambda: not slurm.jobs(), "the job is given back")
    for node in slurm.nodes:
        node.wait_until_idle()
        wait_for(partial(has_no_scratch, node), "scratch is removed")


def has_no_scratch(node: Machine) -> bool:
    return not any("paceline-agent-" in file for file in node.files())


@pytest.mark.parametrize("strategy", LAYOUTS)
def test_a_run_gives_the_loss_of_a_local_run(slurm: SlurmCluster, tmp_path: Path, strategy: str) -> None:
    """ps-sync makes an allocation of its own; allreduce runs inside of one, which stays."""
    local = final_loss(dict(os.environ), tmp_path, strategy, "local", "--set", "transport=tcp")
    if strategy == "ps-sync":
        remote = final_loss(slurm.environment(), tmp_path, strategy, HOSTS)
    else:
        job = slurm.allocate()
        remote = final_loss(inside(slurm, job), tmp_path, strategy, HOSTS)
        assert slurm.jobs() == [job]
        slurm.run("scancel", job)
    assert remote == pytest.approx(local, rel=1e-5)
    assert_nothing_left(slurm)


def test_cancelled_job_ends_the_run_and_names_a_host(slurm: SlurmCluster, tmp_path: Path) -> None:
    run = start(slurm, tmp_path)
    run.wait_until_training()
    slurm.run("scancel", *slurm.jobs())
    code, result = run.result()
    assert (code, result["status"]) == (1, "failed")
    assert "h1" in result["reason"] or "h2" in result["reason"]
    assert_nothing_left(slurm)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_job_is_given_back_if_the_controller_is_interrupted_or_killed(
    slurm: SlurmCluster, tmp_path: Path, number: signal.Signals
) -> None:
    run = start(slurm, tmp_path)
    run.wait_until_training()
    run.process.send_signal(number)
    run.process.communicate(timeout=90)
    assert run.process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert_nothing_left(slurm)


def test_pending_allocation_is_reported_and_ends_with_ctrl_c(slurm: SlurmCluster, tmp_path: Path) -> None:
    slurm.run("salloc", "--no-shell", "--nodes=2", "--exclusive")
    (blocking,) = slurm.jobs()
    run = start(slurm, tmp_path)
    assert run.process.stderr
    line = next(line for line in run.process.stderr if "waiting for an allocation" in line)
    assert "pending: Resources" in line
    assert "for at most 10 min" in line
    assert len(slurm.jobs()) == 2
    run.process.send_signal(signal.SIGINT)
    code, result = run.result()
    assert (code, result["status"]) == (130, "aborted")
    assert slurm.jobs() == [blocking]
    slurm.run("scancel", blocking)
    assert_nothing_left(slurm)


def test_what_slurm_refuses_is_said_in_one_line(slurm: SlurmCluster, tmp_path: Path) -> None:
    arguments = ("run", "logreg", "--runs", str(tmp_path), *LONG, "--hosts", "slurm:constraint=none")
    completed = paceline(slurm.environment(), *arguments)
    assert completed.returncode == 2
    assert "Slurm makes no allocation with --constraint=none --exclusive" in completed.stderr
    assert "Invalid feature specification" in completed.stderr
    assert slurm.jobs() == []
