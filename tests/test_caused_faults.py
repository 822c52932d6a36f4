"""`--fault` in real runs: each fault acts on its target, has its effect, ends in time and leaves nothing behind."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.analyze.timeline import host_rates
from paceline.analyze.training import training_start_s
from paceline.hosts.netns import leftovers
from paceline.hosts.netns.iproute import NAMESPACES
from paceline.store.paths import find_run
from paceline.store.result import FaultResult, Result
from paceline.store.run import StoredRun
from support.live_run import LiveRun, RunOne, wait_for, wait_for_exit

SETTLE_S = 0.4
"""Seconds after the start of a fault by which steps that were in progress are finished."""


def stored_run(result: Result) -> StoredRun:
    directory = Path(result.dir)
    return StoredRun(find_run(directory.parent, directory.name))


def fault_interval(fault: FaultResult) -> tuple[float, float]:
    assert fault.at_s is not None
    assert fault.over_s is not None
    return fault.at_s, fault.over_s


def step_ends(run: StoredRun, task: str) -> pl.Series:
    """When each step of the task ended, in seconds of training."""
    steps = run.steps.filter((pl.col("kind") == "step") & (pl.col("task") == task))
    return steps["t_s"] + steps["duration_s"] - training_start_s(run)


def steps_between(run: StoredRun, task: str, start_s: float, end_s: float) -> int:
    return len(step_ends(run, task).filter(step_ends(run, task).is_between(start_s, end_s)))


def assert_frozen(result: Result, task: str, fault: FaultResult) -> None:
    """The task made steps before and after the fault, but none during it."""
    (start, end), run = fault_interval(fault), stored_run(result)
    assert steps_between(run, task, start + SETTLE_S, end) == 0
    assert steps_between(run, task, 0, start) > 0
    assert steps_between(run, task, end, result.train_s) > 0


def test_frozen_worker_makes_no_steps_while_the_others_continue(run_one: RunOne) -> None:
    result = run_one(strategy="ps-async", layout="pw w w", stop="seconds=4", fault="freeze w1 for 1.5s at 1s")
    assert result.status == "ok"
    (fault,) = result.faults
    start, end = fault_interval(fault)
    assert 1 <= start < 2
    assert 1.5 <= end - start < 2.5
    assert_frozen(result, "w1", fault)
    for other in ("w0", "w2"):
        assert steps_between(stored_run(result), other, start + SETTLE_S, end) > 0


def test_frozen_host_of_a_synchronous_tensorflow_run_stops_all_workers(run_one: RunOne) -> None:
    result = run_one(
        engine="tensorflow", strategy="ps-sync", layout="p w w", stop="seconds=4", fault="freeze h3 for 1.5s at step 50"
    )
    assert result.status == "ok"
    (fault,) = result.faults
    assert (fault.task, fault.host) == (None, "h3")
    for task in ("w0", "w1"):
        assert_frozen(result, task, fault)
    assert fault.back_at_speed_s is None or fault.back_at_speed_s > 0.5


def test_killed_worker_ends_the_run_and_is_detected_within_a_second(run_one: RunOne) -> None:
    result = run_one(strategy="ps-sync", layout="pw w", stop="seconds=60", fault="kill w1 at step 300")
    assert (result.status, result.reason) == ("failed", "w1 on h2 was killed by SIGKILL")
    (fault,) = result.faults
    assert (fault.task, fault.host, fault.over_s) == ("w1", "h2", None)
    assert fault.detected_s is not None
    assert 0 <= fault.detected_s < 1
    assert result.updates >= 300


@pytest.fixture(scope="module")
def result_with_three_faults(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run in which h2 is cut, then h3 is slowed, then the link of h2 is limited."""
    faults = ["cut h2 for 1.5s at 1.5s", "slow h3 to 0.1 cpus for 1.5s at 4.5s", "limit h2 to 2mbit for 1.5s at 7.5s"]
    (result,) = paceline.run(
        "logreg", check=False, strategy="ps-async", layout="p w w", hosts="netns", link="1gbit", fault=faults,
        stop="seconds=10.5", runs=str(tmp_path_factory.mktemp("shaped") / "runs"),
    )  # fmt: skip
    assert result.status == "ok"
    assert [fault.what for fault in result.faults] == faults
    return result


def rates(result: Result, host: str, start_s: float, end_s: float) -> pl.DataFrame:
    run = stored_run(result)
    table = host_rates(run.samples).with_columns(t_s=pl.col("t_s") - training_start_s(run))
    return table.filter((pl.col("host") == host) & pl.col("t_s").is_between(start_s, end_s))


def mean_of(result: Result, host: str, figure: str) -> Callable[[float, float], float]:
    def between(start_s: float, end_s: float) -> float:
        return float(rates(result, host, start_s, end_s)[figure].mean() or 0.0)  # type: ignore[arg-type]

    return between


@pytest.mark.netns
def test_a_cut_link_carries_nothing_and_is_mended(result_with_three_faults: Result) -> None:
    start, end = fault_interval(result_with_three_faults.faults[0])
    sent = mean_of(result_with_three_faults, "h2", "external_tx_mb_s")
    assert sent(0.5, start) > 20 * sent(start + SETTLE_S, end - 0.1)
    assert steps_between(stored_run(result_with_three_faults), "w0", start + SETTLE_S, end) == 0
    assert steps_between(stored_run(result_with_three_faults), "w1", start + SETTLE_S, end) > 0
    assert steps_between(stored_run(result_with_three_faults), "w0", end, result_with_three_faults.train_s) > 0


@pytest.mark.netns
def test_slowed_host_uses_no_more_than_its_cpu_limit(result_with_three_faults: Result) -> None:
    start, end = fault_interval(result_with_three_faults.faults[1])
    cores = mean_of(result_with_three_faults, "h3", "cpu_cores")
    assert cores(start + SETTLE_S, end - 0.1) < 0.13
    assert cores(0.5, 1.4) > 0.2
    assert cores(end + SETTLE_S, end + 1.2) > 0.2


@pytest.mark.netns
def test_limited_link_carries_no_more_than_its_rate(result_with_three_faults: Result) -> None:
    start, end = fault_interval(result_with_three_faults.faults[2])
    sent = mean_of(result_with_three_faults, "h2", "external_tx_mb_s")
    assert 0.05 < sent(start + SETTLE_S, end - 0.1) < 0.25 * 1.1
    assert sent(end + SETTLE_S, result_with_three_faults.train_s) > 0.25 * 2


@pytest.mark.netns
def test_link_that_stays_cut_ends_the_run_within_ten_seconds(run_one: RunOne) -> None:
    result = run_one(
        strategy="ps-sync", layout="pw w", hosts="netns", link="1gbit", stop="seconds=60", fault="cut h2 for 50s at 1s"
    )
    # Either side of the cut link may detect it first.
    assert result.reason is not None
    assert re.search("w1 on h2 failed: lost the connection to ps0|lost the connection to w1", result.reason)
    (fault,) = result.faults
    assert fault.detected_s is not None
    assert fault.detected_s < 10


@pytest.mark.netns
def test_run_that_ends_while_a_host_is_frozen_leaves_nothing_behind(tmp_path: Path) -> None:
    run = LiveRun(
        tmp_path / "runs", "--strategy", "ps-sync", "--layout", "p w w", "--hosts", "netns", "--link", "1gbit",
        "--stop", "seconds=600", "--name", "caused-ns", "--fault", "freeze h2 for 500s at 1s",
        "--fault", "slow h3 to 0.5 cpus at 1s", "--fault", "cut h3 for 500s at 1s", "--fault", "kill w1 at 2s",
    )  # fmt: skip
    run.wait_until_training()
    processes = run.process_tree()
    code, result = run.result()
    assert (code, result["status"]) == (1, "failed")
    assert "w1 on h3" in result["reason"]
    assert [fault["over_s"] for fault in result["faults"]] == [None] * 4
    wait_for_exit(processes, deadline_s=2)
    assert not [entry for entry in Path(NAMESPACES).iterdir() if "caused-ns" in entry.name]
    assert not [leftover for leftover in leftovers.find() if "caused-ns" in leftover.name]


def test_ctrl_c_while_a_worker_is_frozen_ends_the_run_with_a_result(tmp_path: Path) -> None:
    arguments = ["--strategy", "ps-sync", "--layout", "pw w", "--stop", "seconds=600"]
    run = LiveRun(tmp_path / "runs", *arguments, "--fault", "freeze w1 for 500s at 0.5s")
    wait_for(lambda: any(event["event"] == "fault" for event in run.events()), "the worker is frozen")
    processes = run.process_tree()
    os.kill(run.process.pid, signal.SIGINT)
    code, result = run.result(timeout_s=12)
    assert (code, result["status"]) == (130, "aborted")
    assert result["final"]["loss"] is not None
    assert result["faults"][0]["over_s"] is not None
    wait_for_exit(processes, deadline_s=2)
