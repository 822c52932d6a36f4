"""A user's own script on machines that are reached by ssh: its files are sent, and its ranks end as they should."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.machines import Cluster
from support.ssh_runs import assert_nothing_left, inventory

TRAIN = """
import os, socket, sys, time
from paceline import observe
from helper import EXAMPLES
from inner.module import NAME
print("rank", os.environ["RANK"], "on", socket.gethostname(), "in", os.getcwd(), NAME)
open("written-by-rank", "w").write("x")
for _ in range(int(sys.argv[1])):
    time.sleep(0.005)
    observe.step(loss=1.0, examples=EXAMPLES)
"""
DDP = """
import torch
import torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,))).backward()
    optimizer.step()
    optimizer.zero_grad()
print("size", dist.get_world_size())
dist.destroy_process_group()
"""


def launch(folder: Path, machines: Cluster, script: str, *options: str, steps: str = "20") -> dict[str, Any]:
    (folder / "inner").mkdir(exist_ok=True)
    (folder / "train.py").write_text(script)
    (folder / "helper.py").write_text("EXAMPLES = 4\n")
    (folder / "inner" / "__init__.py").touch()
    (folder / "inner" / "module.py").write_text("NAME = 'from a package'\n")
    hosts = inventory(machines, count=2)
    command = [sys.executable, "-m", "paceline", "launch", "--json", "--hosts", hosts, "--layout", "w w", *options]
    done = subprocess.run(
        [*command, "train.py", steps], cwd=folder, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert_nothing_left(machines)
    return result


def log(result: dict[str, Any], folder: Path, task: str) -> str:
    run: str = result["run"]
    return (folder / "runs" / run / "logs" / f"{task}.log").read_text()


def test_a_script_and_the_files_beside_it_are_sent(machines: Cluster, tmp_path: Path) -> None:
    result = launch(tmp_path, machines, TRAIN)
    assert (result["status"], result["updates"], result["examples"]) == ("ok", 20, 160), result["reason"]
    for number, machine in enumerate(list(machines)[:2]):
        line = log(result, tmp_path, f"w{number}")
        assert f"rank {number} on {machine.name} in " in line
        assert "from a package" in line
    assert not (tmp_path / "written-by-rank").exists()


@pytest.mark.slow
def test_a_rank_that_dies_on_another_machine_is_named(machines: Cluster, tmp_path: Path) -> None:
    result = launch(tmp_path, machines, TRAIN, "--fault", "kill w1 at step 20", steps="100000")
    assert result["status"] == "failed"
    assert result["reason"] == "w1 on h2 was killed by SIGKILL"


@pytest.mark.slow
def test_ranks_on_other_machines_are_restarted(machines: Cluster, tmp_path: Path) -> None:
    options = ("--on-failure", "restart", "--fault", "kill w1 at step 20")
    result = launch(tmp_path, machines, TRAIN, *options, steps="400")
    assert (result["status"], result["tainted"]) == ("ok", True), result["reason"]
    assert [worker["steps"] for worker in result["workers"]] == [400, 400]
    assert log(result, tmp_path, "w1").count("rank 1 on") == 2


@pytest.mark.slow
def test_ranks_of_ddp_find_each_other_over_the_network(machines: Cluster, tmp_path: Path) -> None:
    result = launch(tmp_path, machines, DDP)
    assert (result["status"], result["updates"]) == ("ok", 100), result["reason"]
    assert "size 2" in log(result, tmp_path, "w0")
    assert all(worker["phases"]["backward"] > 0 for worker in result["workers"])
