"""Starts `paceline run` as a separate process that a test can observe, interrupt and kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from paceline.recording.layout import RecordKind
from paceline.recording.rows import decode
from paceline.store.journal import TaskRecords, read_journal
from paceline.store.result import Result

DEADLINE_S = 90
"""Seconds after which a wait fails; far above what a busy machine needs."""
RunOne = Callable[..., Result]
"""The type of the fixture `run_one`."""


def wait_for(condition: Callable[[], Any], description: str, deadline_s: float = DEADLINE_S) -> Any:
    """Wait until the condition is true and return its value; fail with the description after the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {deadline_s} s: {description}")


LAYOUTS = {"single": "w", "ps-sync": "pw w", "ps-async": "pw w", "allreduce": "w w"}
ALL_COMBINATIONS = [
    (engine, strategy, hosts)
    for engine in ("torch", "tensorflow")
    for strategy in LAYOUTS
    for hosts in ("local", "netns")
]
"""Every engine, strategy and kind of hosts, as (engine, strategy, hosts)."""


class LiveRun:
    """A running `paceline run` command."""

    def __init__(self, runs: Path, *arguments: str, workload: str = "logreg", launcher: Sequence[str] = ()) -> None:
        """`launcher` is a command that starts paceline, e.g. one that sets limits."""
        self.runs = runs
        self.process = subprocess.Popen(
            [*launcher, sys.executable, "-m", "paceline", "run", workload, "--runs", str(runs), "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def directory(self) -> Path:
        return self._directories[0]

    @property
    def _directories(self) -> list[Path]:
        return sorted(path for path in self.runs.glob("*") if path.is_dir())

    def events(self) -> list[dict[str, Any]]:
        if not self._directories:
            return []
        file = self.directory / "events.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def events_named(self, name: str) -> list[dict[str, Any]]:
        """All events with this name."""
        return [event for event in self.events() if event["event"] == name]

    def wait_until_training(self) -> None:
        """Wait until the barrier is open and the controller has received step records."""

        def training() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            started = any(event["event"] == "go" for event in self.events())
            return started and self._received_steps() > 20

        wait_for(training, "training starts")

    def _received_steps(self) -> int:
        journal = self.directory / "journal.bin"
        entries = read_journal(journal) if journal.exists() else ()
        records = [decode(entry.data)["kind"] for entry in entries if isinstance(entry, TaskRecords)]
        return sum(int((kinds == RecordKind.STEP).sum()) for kinds in records)

    def pid_of(self, task: str) -> int:
        return int(next(e["pid"] for e in self.events() if e["event"] == "started" and e.get("task") == task))

    @property
    def clock_zero_s(self) -> float:
        """The zero of the run's event times on the monotonic clock of this machine, in seconds."""
        return int(next(e["clock_zero_ns"] for e in self.events() if e["event"] == "created")) / 1e9

    def process_tree(self) -> list[psutil.Process]:
        """The processes of the controller and of all its descendants."""
        controller = psutil.Process(self.process.pid)
        return [controller, *controller.children(recursive=True)]

    def kill(self, task: str) -> None:
        os.kill(self.pid_of(task), signal.SIGKILL)

    def result(self, timeout_s: float = DEADLINE_S) -> tuple[int, dict[str, Any]]:
        """Wait for the end of the run; its exit code and its result as printed by --json."""
        out, err = self.process.communicate(timeout=timeout_s)
        assert out, err
        return self.process.returncode, json.loads(out.splitlines()[-1])


def start_run(runs: Path, combination: tuple[str, str, str], *options: str, workload: str = "logreg") -> LiveRun:
    """Start a run of one of ALL_COMBINATIONS."""
    engine, strategy, hosts = combination
    setup = ["--engine", engine, "--strategy", strategy, "--layout", LAYOUTS[strategy], "--hosts", hosts]
    return LiveRun(runs, *setup, "--name", "fault", *options, workload=workload)


def wait_for_exit(processes: list[psutil.Process], deadline_s: float) -> None:
    """Wait until all of these processes have ended; fail after the deadline."""

    def all_ended() -> bool:
        return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)

    wait_for(all_ended, f"processes {[p.pid for p in processes]} end", deadline_s)
