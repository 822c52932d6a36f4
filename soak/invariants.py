"""The invariants that must hold after every run, whatever faults it had. Each violation is reported as one line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
from safetensors.numpy import load_file

from paceline.hosts.netns import leftovers
from soak.scenario import Scenario

Result = dict[str, Any]


def violations(scenario: Scenario, code: int, result: Result, runs: Path, *, resumed: bool = False) -> Iterator[str]:
    """The violations of a run that has ended, from its exit code and the result that it printed."""
    yield from check_end(scenario, code, result, resumed=resumed)
    yield from _check_show(result, runs)
    yield from find_leftovers(runs)
    if result["status"] == "ok":
        yield from check_counts(scenario, result)
        yield from _check_unique_steps(Path(result["dir"]))
        yield from _check_finite(Path(result["dir"]))


def find_leftovers(runs: Path) -> Iterator[str]:
    """Processes, namespaces, cgroups and temporary files that remain after the runs in this directory."""
    for process in psutil.process_iter(["cmdline"]):
        if any(str(runs) in word for word in process.info["cmdline"] or []):
            yield f"process {process.pid} still runs: {' '.join(process.info['cmdline'])[:200]}"
    yield from (f"namespace or cgroup still exists: {leftover}" for leftover in leftovers.find())
    for name in ("spool", "journal.bin", "lock"):
        yield from (f"{path} still exists" for path in runs.glob(f"*/{name}"))


def check_end(scenario: Scenario, code: int, result: Result, *, resumed: bool) -> Iterator[str]:
    """The status, the exit code, the reason and the incidents fit the faults that were injected."""
    status, reason = result["status"], result["reason"]
    injected = [fault for fault in result["faults"] if fault["at_s"] is not None]
    killed = [fault["what"].split()[1] for fault in injected if fault["what"].startswith("kill")]
    expected = {"ok"} if scenario.survives or not killed else {"failed", "ok"}
    if scenario.end == "interrupt" and not resumed:
        expected |= {"aborted"}
    if status not in expected:
        yield f"the run ended {status} ({reason}), not {' or '.join(sorted(expected))}"
    codes = {{"ok": 0, "failed": 1, "diverged": 1, "aborted": 130}[status]}
    if scenario.end == "interrupt" and not resumed:
        codes.add(130)  # Ctrl-C may arrive after the run has ended, whatever its status is.
    if code not in codes:
        yield f"exit code {code} for a run that ended {status}"
    tasks_in_incidents = {incident["task"] for incident in result["incidents"]}
    if status == "failed" and not any(reason.startswith(f"{task} on ") for task in killed):
        yield f"killed: {', '.join(killed) or 'no task'}; but the reason of the failure is: {reason}"
    # At least one: a task that had finished its work when it was killed causes no incident.
    if status == "failed" and not tasks_in_incidents & set(killed):
        yield f"no incident names {' or '.join(killed)}"


def check_counts(scenario: Scenario, result: Result) -> Iterator[str]:
    """The run made exactly the requested number of updates and steps."""
    if result["updates"] != scenario.steps:
        yield f"{result['updates']} updates, not {scenario.steps}"
    steps = [worker["steps"] for worker in result["workers"]]
    if not scenario.asynchronous and set(steps) != {scenario.steps}:
        yield f"steps of workers are {steps}, not {scenario.steps} each"
    # A worker that is killed between its push and its record has not recorded that step.
    max_unrecorded = len(scenario.killed_tasks)
    if scenario.asynchronous and not scenario.steps - max_unrecorded <= sum(steps) <= scenario.steps:
        yield f"steps of workers are {steps}, {sum(steps)} together, not {scenario.steps}"


def _check_unique_steps(directory: Path) -> Iterator[str]:
    """No step of a worker is recorded twice, except those that a return to a checkpoint undid."""
    table = pl.read_parquet(directory / "steps.parquet")
    steps = table.filter((pl.col("kind") == "step") & pl.col("undone").not_())
    if repeated := len(steps) - steps.select("task", "step").n_unique():
        yield f"{repeated} steps are recorded twice"


def _check_finite(directory: Path) -> Iterator[str]:
    for name, values in load_file(directory / "checkpoints" / "final.safetensors").items():
        if not np.isfinite(values).all():
            yield f"parameter {name} is not finite"


def _check_show(result: Result, runs: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "paceline", "show", result["run"], "--runs", str(runs), "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if shown.returncode or json.loads(shown.stdout)["status"] != result["status"]:
        yield f"paceline show failed or shows another status: {shown.stderr[-300:]}"
