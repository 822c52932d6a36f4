"""Collects how runs reacted to injected faults, for a table at the end of a test session."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from paceline.hosts.netns import leftovers
from support.live_run import LiveRun, wait_for_exit

ROWS: list["Row"] = []


class Row(NamedTuple):
    """One fault in one run. Times are seconds after the fault; None if it did not happen."""

    fault: str
    engine: str
    strategy: str
    hosts: str
    status: str
    detected_s: float | None
    recovered_s: float | None
    updates_lost: int
    left_behind: int


class FaultObserver:
    """Observes one fault in a live run: create it right before the fault, then call `wait_for_end`."""

    def __init__(self, run: LiveRun, fault: str) -> None:
        self._run, self._fault = run, fault
        self._processes = run.process_tree()
        self._at_ns = time.monotonic_ns()
        self.detected_s: float | None = None
        """Seconds from the fault to the first incident after it; set when the run has ended."""

    def wait_for_end(self, timeout_s: float = 90) -> tuple[int, dict[str, Any]]:
        """The exit code and the result. Checks that the run left nothing behind, and adds a row to the table."""
        code, result = self._run.result(timeout_s)
        wait_for_exit(self._processes, deadline_s=5)
        leftover = left_behind(self._processes, self._run.directory)
        assert leftover == [], leftover
        events = self._run.events()
        zero_ns = next(event["clock_zero_ns"] for event in events if event["event"] == "created")
        at_s = (self._at_ns - zero_ns) / 1e9
        self.detected_s = _seconds_after(events, "incident", at_s)
        ROWS.append(
            Row(
                self._fault,
                result["engine"],
                result["strategy"],
                result["hosts_kind"],
                result["status"],
                self.detected_s,
                _seconds_after(events, "back", at_s),
                sum(event["lost"] for event in events if event["event"] == "restored"),
                len(leftover),
            )
        )
        return code, result


def left_behind(processes: list[psutil.Process], directory: Path) -> list[str]:
    """What a finished run left: processes, scratch files, and namespaces or cgroups that belong to no live run."""
    alive = [str(p.pid) for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    # Tasks that were started after `processes` was listed have the scratch directory in their command line.
    alive += [str(p.pid) for p in psutil.process_iter(["cmdline"]) if _is_task_of(directory, p)]
    scratch = [path.name for path in (directory / "spool", directory / "journal.bin") if path.exists()]
    return [*alive, *scratch, *map(str, leftovers.find())]


def _is_task_of(directory: Path, process: psutil.Process) -> bool:
    return any(str(directory / "spool") in word for word in process.info["cmdline"] or [])


def table() -> list[str]:
    """The lines of the table."""
    heads = (
        "fault",
        "engine",
        "strategy",
        "hosts",
        "status",
        "detected s",
        "recovered s",
        "updates lost",
        "left behind",
    )
    cells = [heads, *(tuple(_text(value) for value in row) for row in ROWS)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _seconds_after(events: list[dict[str, Any]], name: str, at_s: float) -> float | None:
    """Seconds from `at_s` to the first later event with this name."""
    return next((event["t_s"] - at_s for event in events if event["event"] == name and event["t_s"] > at_s), None)


def _text(value: object) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
