"""Functions and workloads of a script are trained, on this machine and on hosts that share no files with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.machines import Cluster
from support.ssh_runs import inventory

SCRIPT = """
import sys
import paceline

def train(scale, lr=0.1):
    import torch
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.ones(8, 4) * scale).pow(2).mean().backward()
        optimizer.step()
    print("learning rate", repr(lr), flush=True)

if __name__ == "__main__":
    results = paceline.launch(train, 0.5, param={"lr": [0.1, 0.2]}, layout="w", runs="runs")
    print([(result.run, result.updates, result.settings["param"]) for result in results])
"""
WORKLOAD = """
import sys
import numpy as np
import paceline
from paceline import Model, Workload
from paceline.layers import Dense

FEATURES = 4

def train(share):
    for step in range(100):
        inputs = np.full((share.batch, FEATURES), step % 3, np.float32)
        yield inputs, np.zeros(share.batch, np.int64)

if __name__ == "__main__":
    own = Workload(name="own", model=Model((FEATURES,), (Dense(2),)), train=train, train_examples=1000)
    (result,) = paceline.run(own, hosts=sys.argv[1], strategy="ps-sync", layout="pw w", stop="steps=20", runs="runs")
    print(result.title, result.status, result.updates)
"""


def test_function_of_a_script_is_launched_with_each_parameter(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SCRIPT)
    completed = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert completed.stdout == "[('train-1', 20, 'lr=0.1'), ('train-2', 20, 'lr=0.2')]\n", completed.stderr
    assert "learning rate 0.2" in (tmp_path / "runs" / "train-2" / "logs" / "w0.log").read_text()


@pytest.mark.slow
def test_workload_of_a_script_is_trained_on_other_machines(machines: Cluster, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(WORKLOAD)
    completed = subprocess.run(
        [sys.executable, "main.py", inventory(machines, count=2)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.stdout == "own ok 20\n", completed.stderr
