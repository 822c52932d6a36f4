"""Memory and disk that run out for real: named as such, in good order, and what was recorded stays readable."""

import errno
import os
from pathlib import Path

import pytest

import paceline
from fault_table import Watched
from live import RUNS, begun
from paceline.analyze.load import load_result
from paceline.store import writer
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from scarce import fill, memory_limit, needs_root, small_disk

MEMORY_MB = 4_000
HUNGRY = """
import numpy as np

from paceline import Model, Share, Workload
from paceline.layers import Dense

eaten = []


def train(share: Share):
    for step in range(100_000):
        if share.index == share.workers - 1 and step > 100:
            eaten.append(np.ones(20_000_000, np.uint8))
        yield np.ones((share.batch, 2), np.float32), np.zeros(share.batch, np.int64)


WORKLOAD = Workload(
    name="hungry", model=Model((2,), (Dense(2),)), train=train, test=lambda: iter(()), train_examples=10**7, lr=0.1
)
"""


def every_run(quick: tuple[str, str, str]) -> pytest.MarkDecorator:
    """On every engine, strategy and kind of hosts; all but one only in the whole suite."""
    cells = [
        pytest.param(
            *run,
            marks=[*([] if run == quick else [pytest.mark.slow]), *([pytest.mark.netns] if "netns" in run else [])],
        )
        for run in RUNS
    ]
    return pytest.mark.parametrize(("engine", "strategy", "hosts"), cells)


UNTIL_KILLED = ("--stop", "seconds=600", "--on-failure", "fail")


@needs_root
@every_run(quick=("torch", "ps-sync", "local"))
def test_a_task_that_is_out_of_memory_is_named_as_such(tmp_path: Path, engine: str, strategy: str, hosts: str) -> None:
    hungry = tmp_path / "hungry.py"
    hungry.write_text(HUNGRY)
    with memory_limit(MEMORY_MB) as group:
        run = begun(tmp_path / "runs", (engine, strategy, hosts), *UNTIL_KILLED, workload=str(hungry))
        (group / "cgroup.procs").write_text(str(run.process.pid))
        run.wait_until_training()
        assert str(run.pid_of("w0")) in (group / "cgroup.procs").read_text().split()
        watched = Watched(run, "out of memory")
        code, result = watched.ended(timeout_s=120)
    victim = "w0 on h1" if strategy == "single" else "w1 on h2"
    assert (code, result["status"]) == (1, "failed")
    assert result["reason"].startswith(f"{victim} was killed: out of memory"), result["reason"]
    assert result["updates"] > 0


@needs_root
@every_run(quick=("tensorflow", "ps-async", "netns"))
def test_a_full_disk_ends_the_run_in_good_order_with_all_that_was_recorded(
    tmp_path: Path, engine: str, strategy: str, hosts: str
) -> None:
    with small_disk(tmp_path / "disk", "60m") as disk:
        run = begun(disk, (engine, strategy, hosts), *UNTIL_KILLED)
        run.wait_until_training()
        watched, directory = Watched(run, "disk full"), run.directory
        fill(disk)
        code, result = watched.ended(timeout_s=60)
        assert (code, result["status"]) == (1, "failed")
        assert "No space left on device" in result["reason"], result["reason"]
        assert load_result(RunPaths(directory)).status == "failed"
        steps = StoredRun(RunPaths(directory)).steps
        assert len(steps.filter(steps["kind"] == "step")) > 20


def test_a_run_whose_tables_find_no_room_says_so_and_is_whole_once_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(writer, "_write", full)
        (result,) = paceline.run("logreg", stop="steps=30", runs=str(tmp_path))
    assert (result.status, result.reason) == ("failed", f"cannot write to {result.dir}: No space left on device")
    later = load_result(RunPaths(Path(result.dir)))
    assert (later.status, later.updates, later.workers[0].steps) == ("ok", 30, 30)
