"""Errors in users' code end a run at once, with the error as its reason."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.cli.main import run_command
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

WORKLOAD = """
import sys
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

def rows(share, labels=2):
    return np.zeros((share.batch, 2), np.float32), np.full(share.batch, labels - 1)

def train(share):
    for number in range(10_000):
        if number == 20 and share.index == share.workers - 1:
            FAIL
        yield rows(share)

def test():
    yield np.zeros((4, 2), np.float32), np.full(4, LABEL)

WORKLOAD = Workload(name="broken", model=Model((2,), (Dense(2),)), train=train, test=test, train_examples=10**6)
"""


def run(tmp_path: Path, fail: str = "pass", label: int = 0, **fields: Any) -> tuple[Result, StoredRun]:
    """The run of a workload that fails in batch 20 of the last worker, or has this label in its test set."""
    file = tmp_path / "broken.py"
    fail = textwrap.indent(textwrap.dedent(fail), " " * 12).strip()
    file.write_text(WORKLOAD.replace("FAIL", fail).replace("LABEL", str(label)))
    (result,) = paceline.run(
        str(file), runs=str(tmp_path / "runs"), stop="steps=100000", batch=4, check=False, **fields
    )
    return result, StoredRun(RunPaths(Path(result.dir)))


@pytest.mark.parametrize(
    ("fail", "fields", "reason"),
    [
        (
            "raise ValueError('bad row')",
            {"strategy": "ps-async", "layout": "pw w"},
            "w1 on h2 failed: ValueError: bad row",
        ),
        (
            "sys.exit(0)",
            {"strategy": "ps-sync", "layout": "pw w", "on_failure": "restart"},
            "w1 on h2 failed: the code of the workload calls sys.exit(0): remove the call, or raise an exception",
        ),
        (
            "yield np.zeros((4, 3), np.float32), np.zeros(4, int)",
            {"strategy": "allreduce", "layout": "w w", "on_failure": "restart"},
            "w1 on h2 failed: RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 2x2) "
            "(in step 20 with inputs float32 (4, 3), target int64 (4,))",
        ),
        (
            """
            class Unprintable(Exception):
                def __str__(self):
                    return 1 / 0
            raise Unprintable
            """,
            {"on_failure": "restart"},
            "w0 on h1 failed: Unprintable: (its message cannot be shown: __str__ raises ZeroDivisionError)",
        ),
    ],
    ids=["exception", "exit", "shape", "unprintable"],
)
def test_an_error_in_training_ends_the_run_without_a_restart(
    tmp_path: Path, fail: str, fields: dict[str, Any], reason: str
) -> None:
    result, stored = run(tmp_path, fail, **fields)
    assert (result.status, result.reason) == ("failed", reason)
    assert not stored.first("restarting")
    # Only frames of the user's file, or none: the whole traceback is in the log.
    assert "site-packages" not in (result.traceback or "")
    assert "paceline/train" not in (result.traceback or "")
    assert bool(result.traceback) == ("in step" not in reason)


def test_an_error_in_the_evaluation_is_not_retried_and_a_long_message_is_cut(tmp_path: Path) -> None:
    result, stored = run(tmp_path, label=7, on_failure="restart", eval_every="10")
    place = "when the workload was tried on one batch"
    assert result.reason == f"IndexError: index 7 is out of bounds for axis 1 with size 2 ({place})"
    assert result.refused
    assert not stored.first("restarting")
    result, _ = run(tmp_path, "raise ValueError('x' * 70_000_000)")
    assert result.reason
    assert "[69,999,700 characters left out]" in result.reason
    assert result.traceback
    assert len(result.traceback) < 30_000


@pytest.mark.parametrize(
    ("engine", "error", "line"),
    [
        ("torch", "ImportError('libtorch.so: not found')", "ImportError: libtorch.so: not found"),
        ("tensorflow", "OSError('illegal instruction')", "OSError: illegal instruction"),
    ],
)
def test_a_framework_that_fails_on_import_is_named(tmp_path: Path, engine: str, error: str, line: str) -> None:
    (tmp_path / "broken" / engine).mkdir(parents=True)
    (tmp_path / "broken" / engine / "__init__.py").write_text(f"raise {error}\n")
    path = os.pathsep.join([str(tmp_path / "broken"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "paceline", "run", "logreg", "--engine", engine, "--runs", str(tmp_path / "runs")]
    environment = {**os.environ, "PYTHONPATH": path}
    completed = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert completed.returncode == 1
    reason = f"w0 on h1 failed: engine {engine} is installed, but importing it fails ({line}): repair or reinstall its"
    assert reason in " ".join(completed.stderr.split())
    assert "Traceback" not in completed.stderr


SPAWNING = """
import multiprocessing
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

def rows(count):
    return np.zeros((count, 2), np.float32), np.zeros(count, int)

def train(share):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield from pool.imap(rows, [share.batch] * 4)

WORKLOAD = Workload(name="spawning", model=Model((2,), (Dense(2),)), train=train, train_examples=1000)
"""


def test_functions_of_a_file_can_be_used_in_spawned_processes(tmp_path: Path) -> None:
    file = tmp_path / "my model-2.py"
    file.write_text(SPAWNING)
    (result,) = paceline.run(str(file), runs=str(tmp_path / "runs"), stop="steps=3", batch=5)
    assert result.status == "ok", result.reason


def test_a_file_that_exits_when_it_is_loaded_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "exits.py"
    file.write_text("import sys\nsys.exit(0)\n")
    assert run_command(["run", str(file), "--runs", str(tmp_path / "runs")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "exits.py cannot be loaded: it calls sys.exit(0): remove the call" in line
    assert not (tmp_path / "runs").exists()
