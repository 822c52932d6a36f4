"""Runs that exhaust memory or disk space: the reason is named, and what was recorded stays readable."""

import errno
import os
from pathlib import Path

import pytest

import paceline
from paceline.analyze.load import load_result
from paceline.store import writer
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from support.fault_table import FaultObserver
from support.live_run import ALL_COMBINATIONS, start_run
from support.scarce_resources import fill, memory_limit, needs_root, small_disk

MEMORY_MB = 4_000
MEMORY_HOG = """
import numpy as np

from paceline import Model, Share, Workload
from paceline.layers import Dense

allocated = []


def train(share: Share):
    for step in range(100_000):
        if share.index == share.workers - 1 and step > 100:
            allocated.append(np.ones(20_000_000, np.uint8))
        yield np.ones((share.batch, 2), np.float32), np.zeros(share.batch, np.int64)


WORKLOAD = Workload(
    name="memory-hog", model=Model((2,), (Dense(2),)), train=train, test=lambda: iter(()), train_examples=10**7, lr=0.1
)
"""


def every_run(quick: tuple[str, str, str]) -> pytest.MarkDecorator:
    """Runs a test for every engine, strategy and kind of hosts; all but `quick` are marked slow."""
    combinations = [
        pytest.param(
            *run,
            marks=[*([] if run == quick else [pytest.mark.slow]), *([pytest.mark.netns] if "netns" in run else [])],
        )
        for run in ALL_COMBINATIONS
    ]
    return pytest.mark.parametrize(("engine", "strategy", "hosts"), combinations)


ENDLESS = ("--stop", "seconds=600", "--on-failure", "fail")


@needs_root
@every_run(quick=("torch", "ps-sync", "local"))
def test_task_that_runs_out_of_memory_is_named_with_the_reason(
    tmp_path: Path, engine: str, strategy: str, hosts: str
) -> None:
    memory_hog = tmp_path / "memory_hog.py"
    memory_hog.write_text(MEMORY_HOG)
    with memory_limit(MEMORY_MB) as group:
        run = start_run(tmp_path / "runs", (engine, strategy, hosts), *ENDLESS, workload=str(memory_hog))
        (group / "cgroup.procs").write_text(str(run.process.pid))
        run.wait_until_training()
        assert str(run.pid_of("w0")) in (group / "cgroup.procs").read_text().split()
        observer = FaultObserver(run, "out of memory")
        code, result = observer.wait_for_end(timeout_s=120)
    victim = "w0 on h1" if strategy == "single" else "w1 on h2"
    assert (code, result["status"]) == (1, "failed")
    assert result["reason"].startswith(f"{victim} was killed: out of memory"), result["reason"]
    assert result["updates"] > 0


@needs_root
@every_run(quick=("tensorflow", "ps-async", "netns"))
def test_full_disk_ends_the_run_and_keeps_the_records(tmp_path: Path, engine: str, strategy: str, hosts: str) -> None:
    with small_disk(tmp_path / "disk", "60m") as disk:
        run = start_run(disk, (engine, strategy, hosts), *ENDLESS)
        run.wait_until_training()
        observer, directory = FaultObserver(run, "disk full"), run.directory
        fill(disk)
        code, result = observer.wait_for_end(timeout_s=60)
        assert (code, result["status"]) == (1, "failed")
        assert "No space left on device" in result["reason"], result["reason"]
        assert load_result(RunPaths(directory)).status == "failed"
        steps = StoredRun(RunPaths(directory)).steps
        assert len(steps.filter(steps["kind"] == "step")) > 20


def test_tables_that_did_not_fit_on_the_disk_are_written_by_the_next_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_write_tables", full)
        (result,) = paceline.run("logreg", stop="steps=30", runs=str(tmp_path), check=False)
    assert (result.status, result.reason) == ("failed", f"cannot write to {result.dir}: No space left on device")
    later = load_result(RunPaths(Path(result.dir)))
    assert (later.status, later.updates, later.workers[0].steps) == ("ok", 30, 30)
