"""What the suite's faults came to, for one table at its end: seen after, at work again after, lost, left behind."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from live import LiveRun, gone
from paceline.hosts.netns import leftovers

ROWS: list["Row"] = []


class Row(NamedTuple):
    fault: str
    engine: str
    strategy: str
    hosts: str
    status: str
    seen_s: float | None
    back_s: float | None
    lost: int
    left: int


class Watched:
    """One fault in a live run: made between entering and asking how it ended."""

    def __init__(self, run: LiveRun, fault: str) -> None:
        self._run, self._fault = run, fault
        self._family = run.family()
        self._at_ns = time.monotonic_ns()
        self.seen_s: float | None = None
        """How long after the fault an incident was told of, once the run has ended."""

    def ended(self, timeout_s: float = 90) -> tuple[int, dict[str, Any]]:
        """Exit code and result; nothing of the run is there any more, and the table has a row."""
        code, result = self._run.result(timeout_s)
        gone(self._family, deadline_s=5)
        left = left_behind(self._family, self._run.directory)
        assert left == [], left
        events = self._run.events()
        zero_ns = next(event["clock_zero_ns"] for event in events if event["event"] == "created")
        at_s = (self._at_ns - zero_ns) / 1e9
        self.seen_s = _after(events, "incident", at_s)
        ROWS.append(
            Row(
                self._fault,
                result["engine"],
                result["strategy"],
                result["hosts_kind"],
                result["status"],
                self.seen_s,
                _after(events, "back", at_s),
                sum(event["lost"] for event in events if event["event"] == "restored"),
                len(left),
            )
        )
        return code, result


def left_behind(family: list[psutil.Process], directory: Path) -> list[str]:
    """Processes of a run that is over, its scratch space, and what no live run claims."""
    alive = [str(one.pid) for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    # Tasks that were started later have the scratch space in their command line.
    alive += [str(one.pid) for one in psutil.process_iter(["cmdline"]) if _is_task_of(directory, one)]
    scratch = [path.name for path in (directory / "spool", directory / "journal.bin") if path.exists()]
    return [*alive, *scratch, *map(str, leftovers.find())]


def _is_task_of(directory: Path, process: psutil.Process) -> bool:
    return any(str(directory / "spool") in word for word in process.info["cmdline"] or [])


def table() -> list[str]:
    heads = ("fault", "engine", "strategy", "hosts", "ended", "seen s", "back s", "updates lost", "left behind")
    cells = [heads, *(tuple(_text(value) for value in row) for row in ROWS)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _after(events: list[dict[str, Any]], name: str, at_s: float) -> float | None:
    return next((event["t_s"] - at_s for event in events if event["event"] == name and event["t_s"] > at_s), None)


def _text(value: object) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
