"""Runs `paceline` on test machines that are reached by ssh."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.machines import Cluster

OWN_WORKLOAD = """
from helper import WIDTH
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

def train(share):
    random = np.random.default_rng((share.seed, share.index))
    while True:
        x = random.normal(size=(share.batch, WIDTH)).astype("float32")
        yield x, (x[:, 0] > 0).astype("int64")

def test():
    x = np.random.default_rng(7).normal(size=(100, WIDTH)).astype("float32")
    yield x, (x[:, 0] > 0).astype("int64")

WORKLOAD = Workload(name="own", model=Model((WIDTH,), (Dense(2),)), train=train, test=test, train_examples=1000)
"""


def inventory(machines: Cluster, *, count: int = 3, trusted: bool = True, **fields: str) -> str:
    """`ssh:FILE` for the machines, with the Python of the tests, which they see read-only."""
    path = machines.folder / "hosts.toml"
    lines = {"python": sys.executable, "ssh_config": str(machines.ssh_config), **fields}
    text = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
    text += f"trusted_network = {str(trusted).lower()}\n"
    path.write_text(text + "".join(f'[[host]]\nssh = "{machine.name}"\n' for machine in machines.machines[:count]))
    return f"ssh:{path}"


def paceline(*arguments: str, timeout_s: float = 200) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def result_of(runs: Path, workload: str, *arguments: str) -> dict[str, Any]:
    completed = paceline("run", workload, "--runs", str(runs), "--json", *arguments)
    assert completed.returncode == 0, completed.stderr
    (line,) = completed.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    return result


def assert_nothing_left(machines: Cluster, timeout_s: float = 20.0) -> None:
    """No process of a run, and no file but the cache."""
    for machine in machines:
        machine.wait_until_idle(timeout_s)
        left = [file for file in machine.files() if ".cache" not in file and not file.endswith(".bashrc")]
        assert not left, f"{machine.name}: {left}"
