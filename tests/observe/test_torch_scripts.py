"""Scripts that use torch are observed without changes; the phases are checked against times that the script causes."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from contracts.golden import COMMAND, json_lines

EXAMPLES = Path(__file__).parents[2] / "examples" / "scripts"
KNOWN_TIMES = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 64
    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.ones(4), torch.tensor(1.0)

class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.02)
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.03)
        return grad

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)
    def forward(self, x): return Wait.apply(self.linear(x)).squeeze(1)

class SlowSGD(torch.optim.SGD):
    def step(self, closure=None):
        time.sleep(0.01)
        return super().step(closure)

model = Model()
optimizer = SlowSGD(model.parameters(), lr=0.01)
for inputs, labels in DataLoader(Slow(), batch_size=8):
    loss = ((model(inputs) - labels) ** 2).mean()
    print("loss", loss.item())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
torch.save(model.state_dict(), "model.pt")
"""

AS_IN_TUTORIALS = """
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
model, criterion = nn.Linear(4, 3), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(30, 4), torch.randint(0, 3, (30,))), batch_size=8)
for epoch in range(2):
    print("batch size", len(next(iter(loader))[0]))
    mean = 0.0
    for number, (inputs, labels) in enumerate(loader, 1):
        loss = criterion(model(inputs), labels) / 2
        loss.backward()
        mean += loss.item()
        if number % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
            print("loss", mean)
            mean = 0.0
dcp.save({"model": model.state_dict()}, checkpoint_id="saved")
"""


def launch(script: Path, folder: Path, *options: str, arguments: tuple[str, ...] = ()) -> dict[str, Any]:
    command = [*COMMAND, "launch", "--json", "--threads", "1", *options, str(script), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    (result,) = json_lines(done)
    assert result["status"] == "ok", done.stderr
    assert result["not_observed"] == []
    return result


def steps_of(result: dict[str, Any], folder: Path) -> pl.DataFrame:
    table = pl.read_parquet(folder / "runs" / result["run"] / "steps.parquet")
    return table.filter(pl.col("kind") == "step").sort("task", "step")


def log(result: dict[str, Any], folder: Path) -> str:
    run: str = result["run"]
    return (folder / "runs" / run / "logs" / "w0.log").read_text()


def test_each_phase_has_the_time_that_the_script_spends_in_it(tmp_path: Path) -> None:
    (tmp_path / "known.py").write_text(KNOWN_TIMES)
    result = launch(Path("known.py"), tmp_path)
    assert (result["updates"], result["batch"], result["examples"]) == (8, 8, 64)
    (worker,) = result["workers"]
    least = {"data": 0.064, "forward": 0.16, "backward": 0.24, "optimizer": 0.08, "other": 0.035}
    for phase, seconds in least.items():
        assert worker["phases"][phase] >= seconds
    assert worker["phases"]["checkpoint"] > 0
    steps = steps_of(result, tmp_path)
    in_steps = sum(worker["phases"].get(phase, 0.0) for phase in least)
    assert in_steps == pytest.approx(steps["duration_s"].sum(), rel=1e-3)
    printed = [float(value) for value in re.findall(r"loss (\S+)", log(result, tmp_path))]
    assert steps["loss"].to_list() == pytest.approx(printed, rel=1e-5)


def test_examples_and_losses_are_right_in_a_script_that_looks_at_a_batch_and_divides_the_loss(tmp_path: Path) -> None:
    (tmp_path / "tutorial.py").write_text(AS_IN_TUTORIALS)
    result = launch(Path("tutorial.py"), tmp_path)
    steps = steps_of(result, tmp_path)
    assert steps["examples"].to_list() == [16, 14, 16, 14]
    printed = [float(value) for value in re.findall(r"loss (\S+)", log(result, tmp_path))]
    assert steps["loss"].to_list() == pytest.approx(printed, rel=1e-5)
    assert result["workers"][0]["phases"]["checkpoint"] > 0


def test_ranks_of_ddp_are_observed_and_compute_the_same_as_without_observation(tmp_path: Path) -> None:
    arguments = ("--examples", "512", "--epochs", "1", "--accumulate", "2", "--save", str(tmp_path))
    result = launch(EXAMPLES / "ddp.py", tmp_path, "--layout", "ww", arguments=arguments)
    steps = steps_of(result, tmp_path)
    assert [worker["steps"] for worker in result["workers"]] == [4, 4]
    assert set(steps["micro_batches"]) == {2}
    assert set(steps["examples"]) == {64}
    assert result["examples"] == 512
    for worker in result["workers"]:
        assert worker["phases"]["exchange"] > 0
        assert worker["phases"]["eval"] > 0
    assert "checkpoint" in result["workers"][0]["phases"]
    environment = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29617", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(EXAMPLES / "ddp.py"), *arguments],
            env={"PATH": "/usr/bin:/bin", "RANK": str(rank), "LOCAL_RANK": str(rank), **environment},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    unobserved, _ = ranks[0].communicate(timeout=200)
    assert ranks[1].wait(timeout=60) == 0
    losses = re.findall(r"loss (\S+)", log(result, tmp_path))
    assert losses
    assert losses == re.findall(r"loss (\S+)", unobserved)


def test_the_rank_that_others_wait_for_is_named_with_its_phase(tmp_path: Path) -> None:
    arguments = ("--examples", "2048", "--epochs", "1", "--slow-rank", "1")
    result = launch(EXAMPLES / "ddp.py", tmp_path, "--layout", "ww", arguments=arguments)
    fast, slow = (worker["phases"] for worker in result["workers"])
    assert slow["data"] > 0.6 > fast["data"]
    assert fast["wait"] > slow["wait"]
    account = {one["cause"]: one for one in result["verdict"]["account"]}
    assert account["straggler"]["where"] == "w1 on h1"


SCRIPTS = {
    "fsdp2.py": ("torch", ("--layout", "ww"), 30),
    "zero.py": ("torch", ("--layout", "ww"), 30),
    "comm_hooks.py --hook fp16": ("torch", ("--layout", "ww"), 30),
    "comm_hooks.py --hook powersgd": ("torch", ("--layout", "ww"), 30),
    "mixed_precision.py": ("torch", ("--layout", "ww"), 20),
    "accelerate_loop.py": ("accelerate", ("--layout", "ww"), 16),
    "lightning_fit.py": ("lightning", ("--layout", "ww"), 32),
    "hf_trainer.py": ("transformers", ("--layout", "ww"), 32),
    "keras_fit.py": ("keras", (), 48),
}
"""By script and arguments: the package that it needs, the options, and how many steps each rank makes."""


@pytest.mark.slow
@pytest.mark.parametrize("command", SCRIPTS)
def test_a_script_of_each_framework_is_observed(command: str, tmp_path: Path) -> None:
    package, options, steps = SCRIPTS[command]
    name, *arguments = command.split()
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install -c constraints.txt -e '.[scripts]'")
    result = launch(EXAMPLES / name, tmp_path, *options, arguments=tuple(arguments))
    assert {worker["steps"] for worker in result["workers"]} == {steps}
    for worker in result["workers"]:
        assert worker["phases"]["forward"] > 0
        if len(result["workers"]) > 1:
            assert worker["phases"]["backward"] > 0
            assert worker["phases"]["exchange"] + worker["phases"]["wait"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--compile",), ("--num-workers", "2")])
def test_compiled_models_and_loader_processes_are_observed(arguments: tuple[str, ...], tmp_path: Path) -> None:
    given = ("--examples", "512", "--epochs", "1", *arguments)
    result = launch(EXAMPLES / "ddp.py", tmp_path, "--layout", "ww", arguments=given)
    assert [worker["steps"] for worker in result["workers"]] == [8, 8]
    assert result["examples"] == 512
