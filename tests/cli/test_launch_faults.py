"""Faults that are injected into runs of a user's script, and restarts of its ranks with a new rendezvous."""

import re
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest

from contracts.golden import json_lines
from support.script_runs import launch, log

STEPS = """
import os, sys, time
from paceline import observe
print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], "port", os.environ["MASTER_PORT"])
for _ in range(int(sys.argv[1])):
    with observe.phase("forward"):
        time.sleep(0.004)
    observe.step(loss=1.0, examples=4)
"""
COMPUTE = STEPS.replace(
    "        time.sleep(0.004)\n",
    "        until = time.process_time() + 0.01\n        while time.process_time() < until: pass\n",
)
DDP = """
import os, time, torch
import torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], "port", os.environ["MASTER_PORT"])
torch.manual_seed(1)
model = nn.parallel.DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(400):
    time.sleep(0.005)  # Faults are injected by step, but some steps later.
    nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,))).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def attempts(folder: Path, task: str) -> list[tuple[str, str]]:
    """Number and rendezvous port of each attempt of a rank, from its log."""
    return re.findall(r"attempt (\d+) port (\d+)", log(folder, task))


def assert_restarted_with_a_new_rendezvous(result: dict[str, Any], folder: Path, tasks: tuple[str, ...]) -> None:
    assert (result["status"], result["tainted"]) == ("ok", True)
    first, second = attempts(folder, tasks[0])
    assert (first[0], second[0]) == ("0", "1")
    assert first[1] != second[1]
    assert all(attempts(folder, task) == [first, second] for task in tasks)
    assert any("all tasks restart" in incident["what"] for incident in result["incidents"])


def test_a_killed_rank_ends_the_run_and_is_named(tmp_path: Path) -> None:
    done = launch(tmp_path, STEPS, "--layout", "ww", "--json", "--fault", "kill w1 at step 50", arguments=("100000",))
    (result,) = json_lines(done)
    assert (done.returncode, result["status"]) == (1, "failed")
    assert result["reason"] == "w1 on h1 was killed by SIGKILL"
    assert result["workers"][1]["steps"] >= 50
    (fault,) = result["faults"]
    assert fault["detected_s"] is not None


def test_ranks_are_restarted_with_a_new_rendezvous(tmp_path: Path) -> None:
    options = ("--layout", "ww", "--json", "--on-failure", "restart", "--fault", "kill w1 at step 20")
    (result,) = json_lines(launch(tmp_path, STEPS, *options, arguments=("400",)))
    assert_restarted_with_a_new_rendezvous(result, tmp_path, ("w0", "w1"))
    assert [worker["steps"] for worker in result["workers"]] == [400, 400]


@pytest.mark.slow
def test_a_frozen_rank_continues_afterwards(tmp_path: Path) -> None:
    options = ("--layout", "ww", "--json", "--fault", "freeze w1 at step 20 for 1s")
    (result,) = json_lines(launch(tmp_path, STEPS, *options, arguments=("300",)))
    assert (result["status"], [worker["steps"] for worker in result["workers"]]) == ("ok", [300, 300])
    steps = pl.read_parquet(tmp_path / result["dir"] / "steps.parquet").filter(pl.col("kind") == "step")
    longest = dict(steps.group_by("task").agg(pl.col("duration_s").max()).iter_rows())
    assert longest["w1"] > 0.8
    assert longest["w1"] > 3 * longest["w0"]


@pytest.mark.netns
@pytest.mark.slow
def test_a_slowed_host_makes_longer_steps_from_then_on(tmp_path: Path) -> None:
    options = ("--hosts", "netns", "--layout", "w w", "--json", "--stop", "seconds=4")
    (result,) = json_lines(
        launch(tmp_path, COMPUTE, *options, "--fault", "slow h2 to 0.1 cpus at 1.5s", arguments=("100000",))
    )
    assert result["status"] == "ok"
    (fault,) = result["faults"]
    table = pl.read_parquet(tmp_path / result["dir"] / "steps.parquet")
    steps = table.filter((pl.col("kind") == "step") & (pl.col("task") == "w1")).sort("step")
    began_s = steps["t_s"][0] + fault["at_s"]
    before = steps.filter(pl.col("t_s") < began_s - 0.1)["duration_s"]
    after = steps.filter(pl.col("t_s") > began_s + 0.2)["duration_s"]
    assert median(after) > 2 * median(before)


@pytest.mark.slow
@pytest.mark.parametrize("hosts", ["local", pytest.param("netns", marks=pytest.mark.netns)])
def test_ranks_of_ddp_are_restarted(hosts: str, tmp_path: Path) -> None:
    options = ("--hosts", hosts, "--layout", "w w", "--json", "--on-failure", "restart")
    (result,) = json_lines(launch(tmp_path, DDP, *options, "--fault", "kill w1 at step 50"))
    assert_restarted_with_a_new_rendezvous(result, tmp_path, ("w0", "w1"))
    assert [worker["steps"] for worker in result["workers"]] == [400, 400]


@pytest.mark.slow
def test_a_killed_rank_of_ddp_ends_the_run_and_is_named_before_those_that_lose_it(tmp_path: Path) -> None:
    done = launch(tmp_path, DDP, "--layout", "ww", "--json", "--fault", "kill w1 at step 50")
    (result,) = json_lines(done)
    assert (done.returncode, result["reason"]) == (1, "w1 on h1 was killed by SIGKILL")
