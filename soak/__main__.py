"""Soak test: many small runs with random faults, until an invariant is violated or the time is over.

Usage: `python -m soak [--minutes M] [--seed N]`.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.registry import host_provider
from paceline.store.events import EndedEvent
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from soak.invariants import find_leftovers, violations
from soak.scenario import Scenario, draw_scenario

_TIMEOUT_S = 150.0
"""A run trains for a few seconds; whatever faults it has, it must end within this time."""


class RunHung(Exception):
    """A run did not end in time."""


def main() -> None:
    arguments = _arguments()
    seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}, {arguments.minutes:g} minutes", flush=True)
    random, netns = Random(seed), _has_netns()
    started, outcomes = time.monotonic(), Counter[str]()
    number = 0
    while time.monotonic() - started < 60 * arguments.minutes:
        number += 1
        scenario = draw_scenario(random, netns=netns)
        runs = Path(tempfile.mkdtemp(prefix="paceline-soak-"))
        run_started = time.monotonic()
        outcome, violated = _run_scenario(scenario, runs, random)
        print(f"{number}: {scenario} -> {outcome} in {time.monotonic() - run_started:.1f} s", flush=True)
        if violated:
            print(*(f"  VIOLATED: {line}" for line in violated), f"  seed {seed}, run {number}; see {runs}", sep="\n")
            sys.exit(1)
        outcomes[outcome] += 1
        shutil.rmtree(runs)
    minutes = (time.monotonic() - started) / 60
    print(f"{number} runs in {minutes:.1f} minutes, no invariant violated (seed {seed}): {dict(outcomes)}")


def _run_scenario(scenario: Scenario, runs: Path, random: Random) -> tuple[str, list[str]]:
    """How the run ended, and the violated invariants."""
    after_s = random.uniform(0.0, 3.0)
    try:
        code, out, err = _run(["run", "logreg", *scenario.arguments], runs, scenario.end, after_s)
        if scenario.end == "kill" and code == -signal.SIGKILL:
            return _resume(scenario, runs)
        if not out:
            return f"exit {code}", [f"no result: {err[-500:]}"]
        result = json.loads(out)
        return result["status"], list(violations(scenario, code, result, runs))
    except RunHung as error:
        return "hung", [str(error)]


def _resume(scenario: Scenario, runs: Path) -> tuple[str, list[str]]:
    """After a kill -9 of the controller: check that nothing remains and that the run shows as aborted; resume it if it
    has a checkpoint."""
    _wait_for_cleanup(runs)
    (killed,) = [path.name for path in runs.iterdir() if path.is_dir()]
    shown = subprocess.run(
        [sys.executable, "-m", "paceline", "show", killed, "--runs", str(runs), "--json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ended = [event.status for event in StoredRun(RunPaths(runs / killed)).all(EndedEvent)]
    if shown.returncode or json.loads(shown.stdout)["status"] not in (ended or ["aborted"]):
        return "killed", [f"paceline show of a killed run: {shown.stdout[-300:]} {shown.stderr[-300:]}"]
    if leftovers := list(find_leftovers(runs)):
        return "killed", leftovers
    if ended:
        return f"killed after it had ended, {ended[0]}", []
    if not list((runs / killed / "checkpoints").glob("update-*.safetensors")):
        return "killed", []
    code, out, err = _run(["resume", killed], runs, "normal", 0.0)
    if not out:
        return "killed and resumed", [f"no result: {err[-500:]}"]
    result = json.loads(out)
    return f"killed and resumed, {result['status']}", list(violations(scenario, code, result, runs, resumed=True))


def _run(verb: list[str], runs: Path, end: str, after_s: float) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "paceline", *verb, "--runs", str(runs), "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    if end != "normal":
        _wait_for_training(process, runs, after_s)
        process.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    try:
        out, err = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RunHung(f"the run did not end within {_TIMEOUT_S:.0f} s: {' '.join(command)}") from None
    return process.returncode, out, err


def _wait_for_training(process: "subprocess.Popen[str]", runs: Path, after_s: float) -> None:
    """Wait until `after_s` seconds after the start of training, or until the process has ended."""
    deadline, trains_since = time.monotonic() + _TIMEOUT_S, 0.0
    while process.poll() is None and time.monotonic() < deadline:
        if not trains_since and any('"event":"go"' in path.read_text() for path in runs.glob("*/events.jsonl")):
            trains_since = time.monotonic()
        if trains_since and time.monotonic() - trains_since >= after_s:
            return
        time.sleep(0.02)


def _wait_for_cleanup(runs: Path) -> None:
    """Wait up to 5 s: so long may processes and namespaces remain after a kill -9 of the controller."""
    deadline = time.monotonic() + 5
    while (
        any(line.startswith(("process", "namespace or cgroup")) for line in find_leftovers(runs))
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)


def _has_netns() -> bool:
    try:
        host_provider("netns").check([HostRequest(name="h1")])
    except HostError as error:
        print(f"netns hosts are not available, only local hosts are used: {error}")
        return False
    return True


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
