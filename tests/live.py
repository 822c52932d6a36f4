"""A `paceline run` as a process of its own, to be killed, interrupted and looked at while it goes on."""

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
from paceline.store.journal import TaskRecords, read
from paceline.store.result import Result

DEADLINE_S = 90
RunOne = Callable[..., Result]
"""What the fixture `run_one` gives."""


def until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Wait for something that must happen; fails with its name if it does not."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {deadline_s} s: {what}")


LAYOUTS = {"single": "w", "ps-sync": "pw w", "ps-async": "pw w", "allreduce": "w w"}
RUNS = [
    (engine, strategy, hosts)
    for engine in ("torch", "tensorflow")
    for strategy in LAYOUTS
    for hosts in ("local", "netns")
]
"""Every engine, strategy and kind of hosts."""


class LiveRun:
    def __init__(self, runs: Path, *arguments: str, workload: str = "logreg", under: Sequence[str] = ()) -> None:
        """`under`: a command that starts it."""
        self.runs = runs
        self.process = subprocess.Popen(
            [*under, sys.executable, "-m", "paceline", "run", workload, "--runs", str(runs), "--json", *arguments],
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

    def told(self, name: str) -> list[dict[str, Any]]:
        """All events of one kind."""
        return [event for event in self.events() if event["event"] == name]

    def wait_until_training(self) -> None:
        """The barrier is open and records of steps have reached the controller."""

        def training() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            started = any(event["event"] == "go" for event in self.events())
            return started and self._steps_seen() > 20

        until(training, "the training to start")

    def _steps_seen(self) -> int:
        journal = self.directory / "journal.bin"
        entries = read(journal) if journal.exists() else ()
        records = [decode(entry.data)["kind"] for entry in entries if isinstance(entry, TaskRecords)]
        return sum(int((kinds == RecordKind.STEP).sum()) for kinds in records)

    def pid_of(self, task: str) -> int:
        return int(next(e["pid"] for e in self.events() if e["event"] == "started" and e.get("task") == task))

    @property
    def clock_zero_s(self) -> float:
        """When the run's own time began, by this machine's monotonic clock."""
        return int(next(e["clock_zero_ns"] for e in self.events() if e["event"] == "created")) / 1e9

    def family(self) -> list[psutil.Process]:
        """The controller and all its descendants, to be checked for after the end."""
        me = psutil.Process(self.process.pid)
        return [me, *me.children(recursive=True)]

    def kill(self, task: str) -> None:
        os.kill(self.pid_of(task), signal.SIGKILL)

    def result(self, timeout_s: float = DEADLINE_S) -> tuple[int, dict[str, Any]]:
        out, err = self.process.communicate(timeout=timeout_s)
        assert out, err
        return self.process.returncode, json.loads(out.splitlines()[-1])


def begun(runs: Path, run: tuple[str, str, str], *more: str, workload: str = "logreg") -> LiveRun:
    """One of RUNS."""
    engine, strategy, hosts = run
    what = ["--engine", engine, "--strategy", strategy, "--layout", LAYOUTS[strategy], "--hosts", hosts]
    return LiveRun(runs, *what, "--name", "fault", *more, workload=workload)


def gone(processes: list[psutil.Process], deadline_s: float) -> None:
    def all_gone() -> bool:
        return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)

    until(all_gone, f"the end of {[p.pid for p in processes]}", deadline_s)
