"""Frozen tasks and agents and cut links: detected in time, the right task is named, nothing is left behind."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import paceline
from paceline.control import watchdog
from paceline.hosts.netns import iproute
from support.fault_table import FaultObserver
from support.live_run import ALL_COMBINATIONS, LAYOUTS, LiveRun, RunOne, wait_for, wait_for_exit


def set_link(run_name: str, state: str) -> None:
    """Set the link of h2 up or down, on the side of the switch."""
    (switch,) = [entry.name for entry in Path(iproute.NAMESPACES).glob(f"pl-{run_name}-*-sw")]
    subprocess.run([iproute.find("ip") or "ip", "-netns", switch, "link", "set", "h2", state], check=True)


def freeze(run: LiveRun, task: str) -> float:
    """Stop the process of the task; returns the time."""
    os.kill(run.pid_of(task), signal.SIGSTOP)
    return time.monotonic()


@pytest.mark.parametrize(
    ("engine", "strategy", "layout", "victim"),
    [
        ("torch", "ps-sync", "pw w w", "w1"),
        pytest.param("torch", "ps-async", "p w w", "ps0", marks=pytest.mark.slow),
        pytest.param("torch", "allreduce", "w w w", "w2", marks=pytest.mark.slow),
        pytest.param("tensorflow", "ps-async", "pw w", "w1", marks=pytest.mark.slow),
        pytest.param("tensorflow", "ps-sync", "pw w", "w0", marks=pytest.mark.slow),
    ],
)
def test_frozen_task_is_named_and_all_stacks_are_stored(
    tmp_path: Path, engine: str, strategy: str, layout: str, victim: str
) -> None:
    run = LiveRun(
        tmp_path / "runs", "--engine", engine, "--strategy", strategy, "--layout", layout, "--stop", "seconds=600"
    )
    run.wait_until_training()
    observer = FaultObserver(run, f"freeze {victim}")
    frozen = freeze(run, victim)
    code, result = observer.wait_for_end(timeout_s=40)
    duration_s = time.monotonic() - frozen
    assert (code, result["status"]) == (1, "failed")
    host = next(e["host"] for e in run.events() if e["event"] == "started" and e["task"] == victim)
    assert result["reason"].startswith(f"{victim} on {host} is stuck: ")
    assert "does not answer: stopped, state T (all tasks' stacks: logs/stacks.txt)" in result["reason"]
    assert [incident["task"] for incident in result["incidents"]] == [victim]
    assert 10 < duration_s < 17
    stacks = (run.directory / "logs" / "stacks.txt").read_text()
    tasks = {e["task"] for e in run.events() if e["event"] == "started"}
    for task in tasks - {victim}:
        part = stacks.split(f"==== {task} on ")[1].split("====")[1]
        assert "most recent call first" in part
        assert f"/engines/{engine}/" in part
    assert re.search(rf"^-> +{victim} .*stopped, state T$", stacks, re.MULTILINE)


def test_frozen_agent_ends_the_run(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", "--strategy", "ps-async", "--layout", "pw w", "--stop", "seconds=600")
    run.wait_until_training()
    observer = FaultObserver(run, "freeze the agent of w1")
    agent = next(
        process for process in run.process_tree() if process.cmdline()[2:5] == ["paceline.agent", "--host", "h2"]
    )
    agent.suspend()
    frozen = time.monotonic()
    code, result = observer.wait_for_end(timeout_s=40)
    duration_s = time.monotonic() - frozen
    assert (code, result["status"]) == (1, "failed")
    assert result["reason"] == "lost the agent of h2: no answer for 10 s"
    assert [incident["host"] for incident in result["incidents"]] == ["h2"]
    assert 10 < duration_s < 14


BLOCKED_READER = """
import threading

import numpy as np

from paceline import Model, Share, Workload
from paceline.layers import Dense


def train(share: Share):
    for step in range(10_000):
        if share.index == 1 and step == 100:
            read_missing_file(share)
        yield np.ones((share.batch, 2), np.float32), np.zeros(share.batch, np.int64)


def read_missing_file(share: Share):
    threading.Event().wait()


WORKLOAD = Workload(
    name="reader", model=Model((2,), (Dense(2),)), train=train, test=lambda: iter(()), train_examples=100_000, lr=0.1
)
"""


@pytest.mark.slow
def test_worker_with_a_blocked_reader_is_named_instead_of_those_that_wait_for_it(tmp_path: Path) -> None:
    file = tmp_path / "reader.py"
    file.write_text(BLOCKED_READER)
    (result,) = paceline.run(
        str(file), check=False, strategy="allreduce", layout="w w w", stop="seconds=60", runs=str(tmp_path / "runs")
    )
    assert result.status == "failed"
    assert (result.reason or "").startswith("w1 on h2 is stuck: step ")
    assert f"at {file}:" in (result.reason or "")
    assert "read_missing_file" in (result.reason or "")


@pytest.mark.slow
def test_long_evaluation_is_not_reported_as_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each evaluation takes longer than a step may take before a worker counts as stuck."""
    monkeypatch.setattr(watchdog, "MIN_STALL_S", 1.5)
    (result,) = paceline.run(
        "alexnet:cifar", check=False, strategy="ps-sync", layout="pw w", batch=2, eval_every=5, eval_examples=3_000,
        stop="steps=10", runs=str(tmp_path / "runs"),
    )  # fmt: skip
    assert (result.status, result.incidents) == ("ok", [])
    assert max(worker.phases["eval"] for worker in result.workers if "eval" in worker.phases) > 4


@pytest.mark.slow
def test_agents_end_their_tasks_when_the_controller_is_silent(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", "--strategy", "ps-async", "--layout", "pw w", "--stop", "seconds=600")
    run.wait_until_training()
    others = [process for process in run.process_tree() if process.pid != run.process.pid]
    os.kill(run.process.pid, signal.SIGSTOP)
    try:
        wait_for_exit(others, deadline_s=25)
    finally:
        os.kill(run.process.pid, signal.SIGCONT)
    code, result = run.result()
    assert (code, result["status"]) == (1, "failed")
    assert "received no message from the controller for 20 s" in result["reason"]


@pytest.mark.netns
@pytest.mark.parametrize(
    ("engine", "strategy", "layout"),
    [
        ("torch", "ps-async", "pw w"),
        pytest.param("torch", "ps-sync", "p w w", marks=pytest.mark.slow),
        pytest.param("torch", "allreduce", "w w w", marks=pytest.mark.slow),
        pytest.param("tensorflow", "allreduce", "w w w", marks=pytest.mark.slow),
        pytest.param("tensorflow", "ps-async", "p w w", marks=pytest.mark.slow),
        pytest.param("tensorflow", "ps-sync", "pw w", marks=pytest.mark.slow),
    ],
)
def test_cut_link_is_detected_within_ten_seconds(tmp_path: Path, engine: str, strategy: str, layout: str) -> None:
    run = LiveRun(
        tmp_path / "runs", "--engine", engine, "--strategy", strategy, "--layout", layout, "--hosts", "netns",
        "--link", "1gbit", "--stop", "seconds=600", "--name", "cut", "--on-failure", "fail",
    )  # fmt: skip
    run.wait_until_training()
    observer = FaultObserver(run, "cut h2")
    set_link("cut", "down")
    cut_s = time.monotonic() - run.clock_zero_s
    code, result = observer.wait_for_end(timeout_s=40)
    assert (code, result["status"]) == (1, "failed")
    assert "lost the connection to" in result["reason"]
    # Either side of the cut link may detect it first.
    assert re.search(r"\bw\d on h2\b|connection to w\d: 10.80.0.2\b", result["reason"])
    assert result["incidents"][0]["t_s"] - cut_s < 10
    wait_for(lambda: not list(Path(iproute.NAMESPACES).glob("pl-cut-*")), "the namespaces are removed", deadline_s=5)


every_strategy = pytest.mark.parametrize(
    ("engine", "strategy"),
    [(engine, strategy) for engine, strategy, hosts in ALL_COMBINATIONS if hosts == "netns" and strategy != "single"],
)


@pytest.mark.slow
@pytest.mark.netns
@every_strategy
def test_run_survives_a_link_that_is_cut_for_four_seconds(tmp_path: Path, engine: str, strategy: str) -> None:
    run = LiveRun(
        tmp_path / "runs", "--engine", engine, "--strategy", strategy, "--hosts", "netns", "--link", "1gbit",
        "--stop", "seconds=12", "--name", "repaired",
    )  # fmt: skip
    run.wait_until_training()
    set_link("repaired", "down")
    time.sleep(4)  # The duration of the fault.
    set_link("repaired", "up")
    code, result = run.result()
    assert (code, result["status"], result["incidents"]) == (0, "ok", [])
    assert result["reached"]["rule"] == "seconds=12"


@pytest.mark.slow
@pytest.mark.netns
@every_strategy
def test_host_with_an_eighth_of_a_core_is_not_reported_as_stuck(run_one: RunOne, engine: str, strategy: str) -> None:
    """The limit applies from the start, so the startup of the task is eight times slower, too."""
    result = run_one(
        engine=engine, strategy=strategy, layout=LAYOUTS[strategy], hosts="netns", cpus="- 0.12", link="1gbit",
        stop="steps=300",
    )  # fmt: skip
    assert (result.status, result.incidents) == ("ok", [])
    assert result.updates == 300
