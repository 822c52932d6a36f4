"""Mistakes in the functions of a user's workload are found before training: one line, exit code 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORKLOAD = """
import numpy as np
from paceline import Metric, Workload

def batches(count, size=8):
    random = np.random.default_rng(0)
    for _ in range(count):
        inputs = random.normal(size=(size, 4)).astype(np.float32)
        yield inputs, (inputs.sum(1) > 0).astype(np.int64)

def torch_model():
    import torch
    return torch.nn.Linear(4, 2)

def keras_model():
    import keras
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])

EXTRA
WORKLOAD = Workload(**{
    "name": "mistake", "torch": torch_model, "tensorflow": keras_model, "train_examples": 800,
    "train": lambda share: batches(100), "test": lambda: batches(2),
} | dict(FIELDS))
"""
CASES = {
    "vector loss": (
        "def loss(outputs, target):\n    return outputs[:, 0] * 2",
        "loss=loss",
        "`loss` returned a tensor",
    ),
    "number as loss": ("def loss(outputs, target):\n    return 0.5", "loss=loss", "`loss` returned a float"),
    "train_step raises": (
        "def step(model, inputs, target):\n    raise ValueError('no such layer')",
        "train_step=step",
        "ValueError: no such layer (mistake.py, line 20, in step)",
    ),
    "evaluate raises": (
        "def evaluate(predict, batches):\n    return 1 / 0",
        "evaluate=evaluate",
        "ZeroDivisionError: division by zero (mistake.py, line 20, in evaluate)",
    ),
    "evaluate returns a number": (
        "def evaluate(predict, batches):\n    return 0.5",
        "evaluate=evaluate",
        "evaluate returned float, which is not a dict of numbers",
    ),
    "evaluate lacks a metric": (
        "def evaluate(predict, batches):\n    return {'loss': 0.5}",
        "evaluate=evaluate, metrics=(Metric('f1', 'higher'),)",
        "evaluate returns no f1, which metrics declares; it returns loss",
    ),
    "no test batches": ("", "metrics=('top5',), test=lambda: []", "the test set has no batch to compute top5 of"),
    "one class": (
        "def test():\n    yield np.zeros((4, 4), np.float32), np.zeros(4, np.int64)",
        "loss='logistic', metrics=('auc',), test=test",
        "labels of only one class, but auc needs both",
    ),
    "batch": ("", "train=lambda share: [(np.zeros((4, 4)), np.zeros(3))]", "arrays of a batch have different lengths"),
    "optimizer": ("", "optimizer='adm'", "unknown optimizer 'adm': did you mean adam or adamw?"),
    "no data for the metric": ("", "metrics=('top5',), test=None", "metrics needs a test set: give test"),
}
QUICK = {("vector loss", "torch"), ("optimizer", "torch"), ("no data for the metric", "torch")}
LAYOUTS = {
    "torch": [("single", "w"), ("ps-sync", "pw w"), ("ps-async", "pw w"), ("allreduce", "w w"), ("local-sgd", "w w")],
    "tensorflow": [("single", "w"), ("ps-sync", "pw w"), ("ps-async", "pw w"), ("allreduce", "w w")],
}


def run(tmp_path: Path, case: str, engine: str, *options: str) -> subprocess.CompletedProcess[str]:
    extra, fields, _ = CASES[case]
    file = tmp_path / "mistake.py"
    file.write_text(WORKLOAD.replace("EXTRA", extra).replace("FIELDS", fields))
    command = [sys.executable, "-m", "paceline", "run", str(file), "--engine", engine, "--batch", "8", *options]
    command += ["--stop", "steps=20", "--runs", str(tmp_path / "runs")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def assert_refused(completed: subprocess.CompletedProcess[str], case: str) -> None:
    """The command has exit code 2 and says in one line what is wrong; all other lines are progress."""
    errors = [line for line in completed.stderr.splitlines() if line.startswith("paceline: ")]
    assert completed.returncode == 2, completed.stderr
    assert len(errors) == 1, completed.stderr
    assert CASES[case][2] in errors[0]
    assert "Traceback" not in completed.stderr
    assert not completed.stdout


@pytest.mark.parametrize(
    ("case", "engine"),
    [
        pytest.param(case, engine, marks=() if (case, engine) in QUICK else pytest.mark.slow)
        for case in CASES
        for engine in LAYOUTS
    ],
)
def test_a_mistake_is_refused_in_one_line(tmp_path: Path, case: str, engine: str) -> None:
    assert_refused(run(tmp_path, case, engine), case)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["vector loss", "train_step raises", "evaluate raises"])
@pytest.mark.parametrize(
    ("engine", "strategy", "layout"), [(engine, *cell) for engine, cells in LAYOUTS.items() for cell in cells]
)
def test_a_mistake_is_refused_with_every_strategy(
    tmp_path: Path, case: str, engine: str, strategy: str, layout: str
) -> None:
    assert_refused(run(tmp_path, case, engine, "--strategy", strategy, "--layout", layout), case)


@pytest.mark.slow
def test_a_refused_run_has_no_update_and_its_traceback_is_stored(tmp_path: Path) -> None:
    completed = run(tmp_path, "evaluate raises", "torch", "--json")
    result = json.loads(completed.stdout)
    assert completed.returncode == 2
    assert (result["status"], result["refused"], result["updates"]) == ("failed", True, 0)
    assert result["traceback"].splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert result["incidents"] == []
