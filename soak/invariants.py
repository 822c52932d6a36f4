"""What must hold after every run, however it went. Each violation is a line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from safetensors.numpy import load_file

from paceline.hosts.netns import leftovers
from soak.scenario import Scenario

Result = dict[str, Any]


def violations(scenario: Scenario, code: int, result: Result, runs: Path, *, resumed: bool = False) -> Iterator[str]:
    """Of a run that is over, with its exit code and its result as it was printed."""
    yield from ended_right(scenario, code, result, resumed=resumed)
    yield from _readable(result, runs)
    yield from left_behind(runs)
    if result["status"] == "ok":
        yield from counted_right(scenario, result)
        yield from _finite(Path(result["dir"]))


def left_behind(runs: Path) -> Iterator[str]:
    for process in psutil.process_iter(["cmdline"]):
        if any(str(runs) in word for word in process.info["cmdline"] or []):
            yield f"process {process.pid} is left: {' '.join(process.info['cmdline'])[:200]}"
    yield from (f"left: {found}" for found in leftovers.find())
    for name in ("spool", "journal.bin", "lock"):
        yield from (f"{path} is left" for path in runs.glob(f"*/{name}"))


def ended_right(scenario: Scenario, code: int, result: Result, *, resumed: bool) -> Iterator[str]:
    status, reason = result["status"], result["reason"]
    came = [fault for fault in result["faults"] if fault["at_s"] is not None]
    deaths = [fault["what"].split()[1] for fault in came if fault["what"].startswith("kill")]
    expected = {"ok"} if scenario.survives or not deaths else {"failed", "ok"}
    if scenario.end == "interrupt" and not resumed:
        expected |= {"aborted"}
    if status not in expected:
        yield f"it ended {status} ({reason}), not {' or '.join(sorted(expected))}"
    codes = {{"ok": 0, "failed": 1, "diverged": 1, "aborted": 130}[status]}
    if scenario.end == "interrupt" and not resumed:
        codes.add(130)  # A Ctrl-C may come when the run has ended already, one way or the other.
    if code not in codes:
        yield f"exit code {code} for a run that ended {status}"
    named = {incident["task"] for incident in result["incidents"]}
    if status == "failed" and not any(reason.startswith(f"{task} on ") for task in deaths):
        yield f"{', '.join(deaths) or 'nobody'} was killed, and the reason given is: {reason}"
    # One that had done all it had to when it was killed is missed by nobody.
    if status == "failed" and not named & set(deaths):
        yield f"no incident names {' or '.join(deaths)}"


def counted_right(scenario: Scenario, result: Result) -> Iterator[str]:
    if result["updates"] != scenario.steps:
        yield f"{result['updates']} updates, not {scenario.steps}"
    steps = [worker["steps"] for worker in result["workers"]]
    if scenario.strategy != "ps-async" and set(steps) != {scenario.steps}:
        yield f"steps of workers are {steps}, not {scenario.steps} each"
    # A worker that is killed between its push and its record leaves no trace of that step.
    most_untold = len(scenario.deaths)
    if scenario.strategy == "ps-async" and not scenario.steps - most_untold <= sum(steps) <= scenario.steps:
        yield f"steps of workers are {steps}, {sum(steps)} together, not {scenario.steps}"


def _finite(directory: Path) -> Iterator[str]:
    for name, values in load_file(directory / "checkpoints" / "final.safetensors").items():
        if not np.isfinite(values).all():
            yield f"parameter {name} is not finite"


def _readable(result: Result, runs: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "paceline", "show", result["run"], "--runs", str(runs), "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if shown.returncode or json.loads(shown.stdout)["status"] != result["status"]:
        yield f"paceline show does not show it: {shown.stderr[-300:]}"
