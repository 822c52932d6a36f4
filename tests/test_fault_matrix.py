"""The same faults for every engine, strategy and kind of hosts. Quicker tests check some of these combinations."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from paceline.analyze.load import load_result
from paceline.hosts.netns import leftovers
from paceline.store.paths import RunPaths, find_run
from paceline.store.run import StoredRun
from support.fault_table import ROWS, FaultObserver, Row
from support.live_run import ALL_COMBINATIONS, LiveRun, start_run, wait_for, wait_for_exit

pytestmark = pytest.mark.slow

TASKS_TO_KILL = {"single": ["w0"], "ps-sync": ["w1", "ps0"], "ps-async": ["w1", "ps0"], "allreduce": ["w1"]}
STEPS = {
    "torch": {"single": 8000, "ps-sync": 2000, "ps-async": 8000, "allreduce": 1200},
    "tensorflow": {"single": 4000, "ps-sync": 700, "ps-async": 2000, "allreduce": 600},
}


def combination(hosts: str, *others: str) -> object:
    return pytest.param(*others, hosts, marks=[pytest.mark.netns] if hosts == "netns" else [])


every_run = pytest.mark.parametrize(
    ("engine", "strategy", "hosts"),
    [combination(hosts, engine, strategy) for engine, strategy, hosts in ALL_COMBINATIONS],
)
every_task = pytest.mark.parametrize(
    ("engine", "strategy", "victim", "hosts"),
    [
        combination(hosts, engine, strategy, victim)
        for engine, strategy, hosts in ALL_COMBINATIONS
        for victim in TASKS_TO_KILL[strategy]
    ],
)


def host_of(run: LiveRun, task: str) -> str:
    return str(next(e["host"] for e in run.events() if e["event"] == "started" and e["task"] == task))


@every_task
def test_killed_task_ends_the_run_and_is_named(
    tmp_path: Path, engine: str, strategy: str, victim: str, hosts: str
) -> None:
    run = start_run(tmp_path, (engine, strategy, hosts), "--stop", "seconds=600", "--on-failure", "fail")
    run.wait_until_training()
    observer, at = FaultObserver(run, f"kill {victim}"), time.monotonic()
    run.kill(victim)
    code, result = observer.wait_for_end()
    assert time.monotonic() - at < 5
    assert (code, result["status"]) == (1, "failed")
    assert result["reason"] == f"{victim} on {host_of(run, victim)} was killed by SIGKILL"
    assert observer.detected_s is not None
    assert observer.detected_s < 1


@every_task
def test_killed_task_is_restarted_and_every_update_is_made(
    tmp_path: Path, engine: str, strategy: str, victim: str, hosts: str
) -> None:
    steps = STEPS[engine][strategy]
    stop = ["--stop", f"steps={steps}", "--checkpoint-every", str(steps // 30)]
    run = start_run(tmp_path, (engine, strategy, hosts), *stop, "--on-failure", "restart")
    wait_for(lambda: run.events() and RunPaths(run.directory).checkpoints_newest_first(), "a checkpoint exists")
    run.wait_until_training()
    observer = FaultObserver(run, f"kill {victim}, restart")
    run.kill(victim)
    code, result = observer.wait_for_end(timeout_s=120)
    assert (code, result["status"], result["updates"]) == (0, "ok", steps)
    assert observer.detected_s is not None
    assert observer.detected_s < 1
    assert result["incidents"][0]["task"] == victim
    steps_made = [worker["steps"] for worker in result["workers"]]
    if strategy == "ps-async":
        # If a worker is killed after a push but before it records the step, that step is missing from the records.
        assert steps - sum(steps_made) in (0, 1)
    else:
        assert steps_made == [steps] * len(steps_made)
    updates_lost = [event["lost"] for event in run.events_named("restored")]
    restarts_alone = engine == "torch" and strategy.startswith("ps") and victim == "w1"
    assert len(updates_lost) == (0 if restarts_alone else 1)
    assert result["tainted"] == bool(updates_lost)


@every_task
def test_frozen_task_is_detected_and_all_stacks_are_stored(
    tmp_path: Path, engine: str, strategy: str, victim: str, hosts: str
) -> None:
    run = start_run(tmp_path, (engine, strategy, hosts), "--stop", "seconds=600", "--on-failure", "fail")
    run.wait_until_training()
    observer = FaultObserver(run, f"freeze {victim}")
    os.kill(run.pid_of(victim), signal.SIGSTOP)
    code, result = observer.wait_for_end(timeout_s=60)
    assert (code, result["status"]) == (1, "failed")
    assert result["reason"].startswith(f"{victim} on {host_of(run, victim)} is stuck: "), result["reason"]
    assert observer.detected_s is not None
    assert 10 < observer.detected_s < 20
    stacks = (run.directory / "logs" / "stacks.txt").read_text()
    assert re.search(rf"^-> +{victim} .*stopped, state T$", stacks, re.MULTILINE)


@every_run
def test_ctrl_c_ends_the_run_with_a_result_and_a_checkpoint(
    tmp_path: Path, engine: str, strategy: str, hosts: str
) -> None:
    run = start_run(tmp_path, (engine, strategy, hosts), "--stop", "seconds=600")
    run.wait_until_training()
    observer, at = FaultObserver(run, "Ctrl-C"), time.monotonic()
    run.process.send_signal(signal.SIGINT)
    code, result = observer.wait_for_end()
    assert time.monotonic() - at < 10
    assert (code, result["status"], result["reason"]) == (130, "aborted", "interrupted by the user")
    assert result["updates"] > 0
    assert RunPaths(run.directory).checkpoints_newest_first()


@every_run
def test_killed_controller_leaves_no_processes_and_loses_at_most_a_second(
    tmp_path: Path, engine: str, strategy: str, hosts: str
) -> None:
    run = start_run(tmp_path, (engine, strategy, hosts), "--stop", "seconds=600")
    run.wait_until_training()
    processes, at = run.process_tree(), time.monotonic()
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.communicate()
    wait_for_exit(processes, deadline_s=5)
    wait_for(lambda: not leftovers.find(), "namespaces and cgroups are removed", deadline_s=5)
    paths = find_run(tmp_path, "latest")
    assert load_result(paths).status == "aborted"
    steps = StoredRun(paths).steps
    recorded_until_s = (steps["t_s"] + steps["duration_s"]).max()
    assert isinstance(recorded_until_s, float)
    assert at - run.clock_zero_s - recorded_until_s < 1
    ROWS.append(Row("kill -9 controller", engine, strategy, hosts, "aborted", None, None, 0, 0))
