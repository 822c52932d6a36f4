"""A killed run is resumed from its last checkpoint and gives the result of an uninterrupted run."""

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


def kill_after_checkpoint(runs: Path, *arguments: str, checkpoint: int) -> Path:
    """The directory of a run whose controller is killed after it has a checkpoint of at least this update."""
    run = LiveRun(runs, *arguments)

    def has_checkpoint() -> bool:
        checkpoints = RunPaths(run.directory).checkpoints_newest_first() if run.events() else []
        return bool(checkpoints) and update_of(checkpoints[0]) >= checkpoint

    wait_for(has_checkpoint, "the checkpoint exists")
    processes = run.process_tree()
    assert run.process.poll() is None
    run.process.kill()
    run.process.communicate()
    wait_for_exit(processes, deadline_s=5)
    return run.directory


def run_resume(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", "resume", directory.name, "--runs", str(directory.parent), "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def resume(directory: Path) -> dict[str, object]:
    completed = run_resume(directory)
    assert completed.returncode == 0, completed.stderr
    result: dict[str, object] = json.loads(completed.stdout)
    return result


def final_parameters(directory: str | Path) -> dict[str, np.ndarray]:
    parameters: dict[str, np.ndarray] = load_file(Path(directory) / "checkpoints" / "final.safetensors")
    return parameters


@pytest.mark.parametrize(
    ("engine", "strategy", "layout", "steps", "optimizer"),
    [
        ("torch", "ps-sync", "pw pw", 1500, "adamw"),
        ("tensorflow", "ps-sync", "pw w", 400, "adamw"),
        pytest.param("torch", "ps-sync", "pw pw", 1500, "momentum", marks=SLOW),
        pytest.param("torch", "single", "w", 3000, "adam", marks=SLOW),
        pytest.param("torch", "single", "w", 3000, "adagrad", marks=SLOW),
        pytest.param("torch", "allreduce", "w w", 600, "nesterov", marks=SLOW),
        pytest.param("torch", "local-sgd", "w w w", 3000, "momentum", marks=SLOW),
        pytest.param("torch", "local-sgd", "w w", 3000, "adamw", marks=SLOW),
        pytest.param("torch", "diloco", "w w", 3000, "adamw", marks=SLOW),
        pytest.param("tensorflow", "single", "w", 2000, "adagrad", marks=SLOW),
        pytest.param("tensorflow", "allreduce", "w w", 400, "adamw", marks=SLOW),
    ],
)
def test_resumed_run_gives_the_same_parameters_as_an_uninterrupted_one(
    tmp_path: Path, engine: str, strategy: str, layout: str, steps: int, optimizer: str
) -> None:
    fields: dict[str, Any] = {"engine": engine, "strategy": strategy, "layout": layout, "stop": f"steps={steps}"}
    schedule = f"cosine:updates={2 * steps}"
    settings: dict[str, Any] = {"optimizer": optimizer, "schedule": schedule, "lr": "0.01", "checkpoint_every": "100"}
    (uninterrupted,) = paceline.run("logreg", runs=str(tmp_path / "whole"), **fields, **settings)
    flags = [part for key, value in fields.items() for part in (f"--{key}", value)]
    flags += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    directory = kill_after_checkpoint(tmp_path / "cut", *flags, checkpoint=200)
    resumed = resume(directory)
    assert (resumed["status"], resumed["updates"]) == ("ok", steps)
    assert resumed["tainted"]
    expected, actual = final_parameters(uninterrupted.dir), final_parameters(str(resumed["dir"]))
    assert expected.keys() == actual.keys()
    assert max(float(np.abs(expected[name] - actual[name]).max()) for name in expected) < 1e-4
    # Each batch is used once: the run continues with the batch after the checkpoint.
    stored = StoredRun(RunPaths(Path(str(resumed["dir"]))))
    assert stored.header.resumed
    start = stored.header.resumed.update
    assert start >= 200
    steps_made = stored.steps.filter(stored.steps["kind"] == "step")
    for _, task_steps in steps_made.group_by("task"):
        assert sorted(task_steps["step"].to_list()) == list(range(start, steps))
    assert resumed["updates_before"] == start


def test_resumed_asynchronous_run_continues_with_each_workers_next_batch(tmp_path: Path) -> None:
    flags = ["--strategy", "ps-async", "--layout", "pw w w", "--stop", "steps=6000", "--checkpoint-every", "500"]
    directory = kill_after_checkpoint(tmp_path, *flags, checkpoint=1000)
    resumed = resume(directory)
    assert (resumed["status"], resumed["updates"]) == ("ok", 6000)
    before, after = StoredRun(RunPaths(directory)), StoredRun(RunPaths(Path(str(resumed["dir"]))))
    start = after.header.resumed
    assert start
    for task in ("w0", "w1", "w2"):
        before_checkpoint = before.steps.filter(
            (before.steps["kind"] == "step") & (before.steps["task"] == task) & (before.steps["update"] <= start.update)
        )
        resumed_steps = after.steps.filter((after.steps["kind"] == "step") & (after.steps["task"] == task))["step"]
        assert start.steps[task] == len(before_checkpoint)
        assert resumed_steps.min() == len(before_checkpoint)


def test_resumed_run_is_not_killed_again_and_skips_a_damaged_checkpoint(tmp_path: Path) -> None:
    flags = ["--strategy", "ps-sync", "--layout", "pw w", "--checkpoint-every", "50", "--stop", "steps=3000"]
    faults = ["--fault", "kill w1 at step 200", "--fault", "freeze w1 for 1s at step 2990"]
    code, failed = LiveRun(tmp_path, *flags, *faults).result()
    assert (code, failed["status"]) == (1, "failed")
    directory = Path(failed["dir"])
    contents = {path: path.read_bytes() for path in RunPaths(directory).checkpoints_newest_first()}
    newest, *older = contents
    for path, data in contents.items():
        path.write_bytes(data[:-100])
    refused = run_resume(directory)
    assert (refused.returncode, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert f"because all {len(contents)} checkpoints are damaged: {newest} is not a checkpoint: " in line
    for path in older:
        path.write_bytes(contents[path])
    completed = run_resume(directory)
    assert completed.returncode == 0, completed.stderr
    assert str(newest) in completed.stderr
    resumed = json.loads(completed.stdout)
    assert (resumed["status"], resumed["updates"]) == ("ok", 3000)
    what = [incident["what"] for incident in resumed["incidents"]]
    assert what[0] == f"resumed from update {update_of(older[0])} of {directory.name}"
    assert what[1].startswith(f"a checkpoint is damaged and was skipped: {newest} is not a checkpoint: ")
    # The fault that had not happened yet is still to come; whether it does depends on the speed of the last steps.
    assert [fault["what"] for fault in resumed["faults"]] == ["freeze w1 for 1s at step 2990"]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("ok", "ended with status ok: only failed or aborted runs can be resumed"),
        ("none", "has no checkpoint to resume from"),
    ],
)
def test_run_that_cannot_be_resumed_is_refused_in_one_line(tmp_path: Path, case: str, message: str) -> None:
    (result,) = paceline.run("logreg", runs=str(tmp_path), stop="steps=5")
    if case == "none":
        (tmp_path / result.run / "result.json").unlink()
        events = tmp_path / result.run / "events.jsonl"
        lines = [text for text in events.read_text().splitlines() if '"ended"' not in text]
        events.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "paceline", "resume", result.run, "--runs", str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert len(completed.stderr.splitlines()) == 1
    assert message in completed.stderr
