"""A run that was cut short goes on where its last checkpoint is, and comes to what it would have come to."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import paceline
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.train.checkpoint import update_of
from support.live_run import LiveRun, wait_for, wait_for_exit

SLOW = pytest.mark.slow


def cut_short(runs: Path, *arguments: str, checkpoint: int) -> Path:
    """A run whose controller is killed once there is a checkpoint; its directory."""
    run = LiveRun(runs, *arguments)

    def far_enough() -> bool:
        left = RunPaths(run.directory).checkpoints_left() if run.events() else []
        return bool(left) and update_of(left[0]) >= checkpoint

    wait_for(far_enough, "the checkpoint")
    processes = run.process_tree()
    assert run.process.poll() is None
    run.process.kill()
    run.process.communicate()
    wait_for_exit(processes, deadline_s=5)
    return run.directory


def resumed(directory: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "paceline", "resume", directory.name, "--runs", str(directory.parent), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def final(directory: str | Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = load_file(Path(directory) / "checkpoints" / "final.safetensors")
    return found


@pytest.mark.parametrize(
    ("engine", "strategy", "layout", "steps"),
    [
        ("torch", "ps-sync", "pw pw", 1500),
        ("tensorflow", "ps-sync", "pw w", 400),
        pytest.param("torch", "single", "w", 3000, marks=SLOW),
        pytest.param("torch", "allreduce", "w w", 600, marks=SLOW),
        pytest.param("tensorflow", "single", "w", 2000, marks=SLOW),
        pytest.param("tensorflow", "allreduce", "w w", 400, marks=SLOW),
    ],
)
def test_resumed_run_gives_the_same_parameters_as_an_uninterrupted_one(
    tmp_path: Path, engine: str, strategy: str, layout: str, steps: int
) -> None:
    fields: dict[str, Any] = {"engine": engine, "strategy": strategy, "layout": layout, "stop": f"steps={steps}"}
    settings: dict[str, Any] = {"momentum": "0.9", "lr": "0.01", "checkpoint_every": "100"}
    (whole,) = paceline.run("logreg", runs=str(tmp_path / "whole"), **fields, **settings)
    flags = [part for key, value in fields.items() for part in (f"--{key}", value)]
    flags += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    directory = cut_short(tmp_path / "cut", *flags, checkpoint=200)
    went_on = resumed(directory)
    assert (went_on["status"], went_on["updates"]) == ("ok", steps)
    assert went_on["tainted"]
    expected, found = final(whole.dir), final(str(went_on["dir"]))
    assert expected.keys() == found.keys()
    assert max(float(np.abs(expected[name] - found[name]).max()) for name in expected) < 1e-4
    # Every example once: it begins with the batch after the checkpoint's last.
    stored = StoredRun(RunPaths(Path(str(went_on["dir"]))))
    assert stored.header.resumed
    start = stored.header.resumed.update
    assert start >= 200
    steps_made = stored.steps.filter(stored.steps["kind"] == "step")
    for _, mine in steps_made.group_by("task"):
        assert sorted(mine["step"].to_list()) == list(range(start, steps))


def test_resumed_asynchronous_run_continues_with_each_workers_next_batch(tmp_path: Path) -> None:
    flags = ["--strategy", "ps-async", "--layout", "pw w w", "--stop", "steps=6000", "--checkpoint-every", "500"]
    directory = cut_short(tmp_path, *flags, checkpoint=1000)
    went_on = resumed(directory)
    assert (went_on["status"], went_on["updates"]) == ("ok", 6000)
    before, after = StoredRun(RunPaths(directory)), StoredRun(RunPaths(Path(str(went_on["dir"]))))
    start = after.header.resumed
    assert start
    for task in ("w0", "w1", "w2"):
        until_checkpoint = before.steps.filter(
            (before.steps["kind"] == "step") & (before.steps["task"] == task) & (before.steps["update"] <= start.update)
        )
        mine = after.steps.filter((after.steps["kind"] == "step") & (after.steps["task"] == task))["step"]
        assert start.steps[task] == len(until_checkpoint)
        assert mine.min() == len(until_checkpoint)


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        ("ok", "ended ok: only one that failed or was aborted can be resumed"),
        ("none", "left no checkpoint to go on from"),
    ],
)
def test_run_that_cannot_be_resumed_is_refused_in_one_line(tmp_path: Path, harm: str, line: str) -> None:
    (result,) = paceline.run("logreg", runs=str(tmp_path), stop="steps=5")
    if harm == "none":
        (tmp_path / result.run / "result.json").unlink()
        events = tmp_path / result.run / "events.jsonl"
        kept = [text for text in events.read_text().splitlines() if '"ended"' not in text]
        events.write_text("\n".join(kept) + "\n")
    command = [sys.executable, "-m", "paceline", "resume", result.run, "--runs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert line in done.stderr
