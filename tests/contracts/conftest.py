"""Runs for the contract tests: stored runs of an older version, and new runs made by `paceline run`."""

import shutil
import subprocess
from pathlib import Path

import pytest

from contracts.golden import STORED_RUNS, paceline

_WORKLOAD_THAT_RAISES = """
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense


def train(share):
    print("first batch", flush=True)
    yield np.zeros((share.batch, 2), np.float32), np.zeros(share.batch, np.int64)
    raise ValueError("there is no second batch")


def test():
    yield np.zeros((10, 2), np.float32), np.zeros(10, np.int64)


WORKLOAD = Workload(
    name="raises", summary="", model=Model((2,), (Dense(2),)), train=train, test=test, train_examples=1000, lr=0.1
)
"""


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with copies of the stored runs; new runs are added to it."""
    directory = tmp_path_factory.mktemp("contracts") / "runs"
    shutil.copytree(STORED_RUNS, directory)
    return directory


@pytest.fixture(scope="session")
def new_run(runs: Path) -> subprocess.CompletedProcess[str]:
    """The finished command that made the run `new-1`."""
    options = ("logreg", "--strategy", "ps-async", "--layout", "pw w", "--batch", "10", "--stop", "steps=20")
    return paceline("run", *options, "--name", "new", "--runs", runs, "--json")


@pytest.fixture(scope="session")
def failed_run(runs: Path) -> subprocess.CompletedProcess[str]:
    """The finished command that made the run `failed-1`: a user's workload raises an exception during training."""
    file = runs.parent / "raises.py"
    file.write_text(_WORKLOAD_THAT_RAISES)
    return paceline("run", file, "--name", "failed", "--batch", "10", "--stop", "steps=20", "--runs", runs, "--json")
