"""Every engine, strategy and kind of workload gives the same losses over ssh as on local hosts."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support import ssh_table
from support.machines import Cluster
from support.ssh_runs import OWN_WORKLOAD, assert_nothing_left, inventory, result_of

# An asynchronous run gives the same losses every time only if it has one worker; here its server is on another machine.
LAYOUTS = {"single": "w", "ps-sync": "pw w w", "ps-async": "p w", "allreduce": "w w w"}
WORKLOADS = {
    "logreg": (),
    # The all-reduce exchanges all weights, so it needs a model with few.
    "sparse-logreg": ("--set", "examples=2000"),
    "lenet": ("--batch", "10"),
    "own.py": ("--batch", "10"),
}
QUICK = {("torch", "allreduce", "own.py"), ("tensorflow", "ps-sync", "logreg"), ("torch", "ps-async", "sparse-logreg")}
CASES = [
    pytest.param(*case, id="-".join(case), marks=() if case in QUICK else pytest.mark.slow)
    for engine in ("torch", "tensorflow")
    for strategy in LAYOUTS
    for workload in WORKLOADS
    if (case := (engine, strategy, workload))
]


@pytest.mark.parametrize(("engine", "strategy", "workload"), CASES)
def test_losses_over_ssh_are_those_of_local_hosts(
    machines: Cluster, tmp_path: Path, engine: str, strategy: str, workload: str
) -> None:
    layout = LAYOUTS[strategy]
    options = ["--engine", engine, "--strategy", strategy, "--layout", layout]
    options += ["--stop", "steps=12", "--eval-every", "6", *WORKLOADS[workload]]
    if workload == "sparse-logreg" and strategy == "allreduce":
        options += ["--size", "dense"]
    if workload == "own.py":
        workload = write_own_workload(tmp_path)
    remote = result_of(tmp_path / "runs", workload, "--hosts", inventory(machines), *options)
    # Without shared memory, so that gradients are added in the same order.
    memory = ["--set", "transport=tcp"] if engine == "torch" and strategy.startswith("ps") else []
    local = result_of(tmp_path / "runs", workload, "--hosts", "local", *options, *memory)
    ssh_table.add(f"{engine} {strategy} '{layout}' {Path(workload).name}", remote, local)
    assert (remote["status"], remote["updates"]) == ("ok", 12)
    assert remote["final"]["loss"] == pytest.approx(local["final"]["loss"], rel=1e-4)
    assert step_losses(remote) == pytest.approx(step_losses(local), rel=1e-4)
    assert_nothing_left(machines)


def test_asynchronous_workers_on_three_machines_make_exactly_the_requested_updates(
    machines: Cluster, tmp_path: Path
) -> None:
    hosts = inventory(machines)
    result = result_of(
        tmp_path, "logreg", "--hosts", hosts, "--strategy", "ps-async", "--layout", "pw w w", "--stop", "steps=300"
    )
    assert (result["status"], result["updates"]) == ("ok", 300)
    assert sum(worker["steps"] for worker in result["workers"]) == 300
    assert all(worker["steps"] for worker in result["workers"])
    assert_nothing_left(machines)


def write_own_workload(folder: Path) -> str:
    (folder / "own.py").write_text(OWN_WORKLOAD)
    (folder / "helper.py").write_text("WIDTH = 5\n")
    return str(folder / "own.py")


def step_losses(result: dict[str, Any]) -> list[float]:
    """The loss of every step of every worker, in order."""
    steps = pl.read_parquet(Path(result["dir"]) / "steps.parquet").filter(pl.col("kind") == "step")
    return list(steps.sort("task", "step")["loss"])
