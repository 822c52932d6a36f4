"""Runs `paceline launch` on a script that a test writes."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from contracts.golden import COMMAND

STEPS = """
import sys, time
from paceline import observe
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
    with observe.phase("data"):
        time.sleep(0.001)
    with observe.phase("forward"):
        time.sleep(0.002)
    observe.step(loss=1 / (number + 1), examples=4)
"""
"""A script that reports its steps itself: loading a framework would take most of the time of a test."""


def launch(
    folder: Path,
    script: str,
    *options: str,
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 200,
) -> subprocess.CompletedProcess[str]:
    """Run the script as train.py in the folder, where its runs are stored, too."""
    (folder / "train.py").write_text(script)
    command = [*COMMAND, "launch", *options, "train.py", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
    )


def log(folder: Path, task: str = "w0", run: str = "train-1") -> str:
    return (folder / "runs" / run / "logs" / f"{task}.log").read_text()
