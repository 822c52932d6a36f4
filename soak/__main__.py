"""Faults at random over many small runs: `python -m soak [--minutes M] [--seed N]`. Ends at the first violation."""

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
from paceline.hosts.registry import HOSTS
from paceline.store.events import EndedEvent
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from soak.invariants import left_behind, violations
from soak.scenario import Scenario, draw

_PATIENCE_S = 150.0
"""No run of a few seconds takes so long, whatever happens to it."""


class Hung(Exception):
    pass


def main() -> None:
    arguments = _arguments()
    seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}, {arguments.minutes:g} minutes", flush=True)
    random, netns = Random(seed), _has_netns()
    started, ended = time.monotonic(), Counter[str]()
    number = 0
    while time.monotonic() - started < 60 * arguments.minutes:
        number += 1
        scenario = draw(random, netns=netns)
        runs = Path(tempfile.mkdtemp(prefix="paceline-soak-"))
        began = time.monotonic()
        how, wrong = _play(scenario, runs, random)
        print(f"{number}: {scenario} -> {how} in {time.monotonic() - began:.1f} s", flush=True)
        if wrong:
            print(*(f"  VIOLATED: {line}" for line in wrong), f"  seed {seed}, run {number}; see {runs}", sep="\n")
            sys.exit(1)
        ended[how] += 1
        shutil.rmtree(runs)
    minutes = (time.monotonic() - started) / 60
    print(f"{number} runs in {minutes:.1f} minutes, no invariant violated (seed {seed}): {dict(ended)}")


def _play(scenario: Scenario, runs: Path, random: Random) -> tuple[str, list[str]]:
    """How it ended, and what was not as it must be."""
    after_s = random.uniform(0.0, 3.0)
    try:
        code, out, err = _run(["run", "logreg", *scenario.arguments], runs, scenario.end, after_s)
        if scenario.end == "kill" and code == -signal.SIGKILL:
            return _resume(scenario, runs)
        if not out:
            return f"exit {code}", [f"no result: {err[-500:]}"]
        result = json.loads(out)
        return result["status"], list(violations(scenario, code, result, runs))
    except Hung as hung:
        return "hung", [str(hung)]


def _resume(scenario: Scenario, runs: Path) -> tuple[str, list[str]]:
    """After a kill -9: everything is gone, the run shows as aborted, and goes on if it left a checkpoint."""
    _until_gone(runs)
    (killed,) = [path.name for path in runs.iterdir() if path.is_dir()]
    shown = subprocess.run(
        [sys.executable, "-m", "paceline", "show", killed, "--runs", str(runs), "--json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ended = [event.status for event in StoredRun(RunPaths(runs / killed)).all(EndedEvent)]
    if shown.returncode or json.loads(shown.stdout)["status"] not in (ended or ["aborted"]):
        return "killed", [f"a killed run shows as: {shown.stdout[-300:]} {shown.stderr[-300:]}"]
    if wrong := list(left_behind(runs)):
        return "killed", wrong
    if ended:
        return f"killed, but it was over, {ended[0]}", []
    if not list((runs / killed / "checkpoints").glob("update-*.safetensors")):
        return "killed", []
    code, out, err = _run(["resume", killed], runs, "its own", 0.0)
    if not out:
        return "killed and resumed", [f"no result: {err[-500:]}"]
    result = json.loads(out)
    return f"killed and resumed, {result['status']}", list(violations(scenario, code, result, runs, resumed=True))


def _run(verb: list[str], runs: Path, end: str, after_s: float) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "paceline", *verb, "--runs", str(runs), "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    if end != "its own":
        _wait_for_training(process, runs, after_s)
        process.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    try:
        out, err = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Hung(f"not over after {_PATIENCE_S:.0f} s: {' '.join(command)}") from None
    return process.returncode, out, err


def _wait_for_training(process: "subprocess.Popen[str]", runs: Path, after_s: float) -> None:
    """Until so long after its barrier opened, or it is over."""
    deadline, opened = time.monotonic() + _PATIENCE_S, 0.0
    while process.poll() is None and time.monotonic() < deadline:
        if not opened and any('"event":"go"' in path.read_text() for path in runs.glob("*/events.jsonl")):
            opened = time.monotonic()
        if opened and time.monotonic() - opened >= after_s:
            return
        time.sleep(0.02)


def _until_gone(runs: Path) -> None:
    """A kill -9 of the controller takes all with it within 5 s."""
    deadline = time.monotonic() + 5
    while any(line.startswith(("process", "left:")) for line in left_behind(runs)) and time.monotonic() < deadline:
        time.sleep(0.1)


def _has_netns() -> bool:
    try:
        HOSTS["netns"].check([HostRequest(name="h1")])
    except HostError as error:
        print(f"without netns: {error}")
        return False
    return True


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
