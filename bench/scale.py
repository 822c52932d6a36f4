"""How Paceline scales with the number of workers: time to the first step, throughput, and what its controller uses.

Each case is one `paceline run` in a process of its own. This process is the controller, and it is measured from the
outside: its CPU time while the workers train, and its highest memory. Agents and tasks are other processes.
"""

import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

import msgspec
import psutil
from rich.table import Table

from bench.measure import console
from paceline.store.header import EVENT as HEADER_EVENT
from paceline.versions import installed_version

CASES = (("local", 3), ("local", 8), ("local", 16), ("local", 32), ("local", 64), ("netns", 16))
"""Kind of hosts and number of workers; each worker has a host of its own."""
_RUN = ("logreg", "--engine", "torch", "--strategy", "ps-async", "--stop", "seconds=5")
_SAMPLE_EVERY_S = 0.05
_PAGE_WIDTH = 120
_COLUMNS = ("hosts", "workers", "first step (s)", "updates/s", "controller CPU (cores)", "controller memory (MB)")
_PAGE = """# Scale

How long a run takes to start, how fast it trains, and what Paceline itself uses, for 3 to 64 workers.

{table}

{about}

- **First step**: seconds from the start of the run until every worker has made its first step. All tasks load their
  framework on the cores of one machine.
- **Updates/s**: all workers share the cores of one machine, so more workers do not make more updates.
- **Controller**: the `paceline run` process, measured from the outside. It receives and stores all records and samples.
  The CPU time is that of the training; the memory is the highest until the command ends, including the analysis.

Each row is `paceline run logreg --engine torch --strategy ps-async --stop seconds=5` with one host per worker and a
parameter server on the first. `make scale` measures all rows again and writes this page; do not edit it.
"""


class Usage(msgspec.Struct, frozen=True):
    """What the controller had used at one moment."""

    at_s: float
    """On the system's monotonic clock."""
    cpu_s: float
    memory_mb: float


class ScaleResult(msgspec.Struct, frozen=True):
    first_step_s: float
    updates_per_s: float
    controller_cores: float
    controller_memory_mb: float
    other_cores: float = 0.0
    """Cores that other programs used during the training."""

    @property
    def cells(self) -> list[str]:
        throughput, memory = f"{self.updates_per_s:,.0f}", f"{self.controller_memory_mb:,.0f}"
        return [f"{self.first_step_s:.1f}", throughput, f"{self.controller_cores:.2f}", memory]


def scale(rounds: int, page: Path | None = None) -> None:
    """Measure all cases, print them as a table and, if `page` is given, write them to that file as Markdown."""
    rows, other_cores = list[list[str]](), 0.0
    for hosts, workers in CASES:
        results = [result for _ in range(rounds) if (result := measure_case(hosts, workers))]
        if results:
            middle = _median(results)
            rows.append([hosts, str(workers), *middle.cells])
            other_cores = max(other_cores, middle.other_cores)
            console.print(f"  {'  '.join(rows[-1])}", style="dim")
    table = Table(*_COLUMNS, title="Scale", title_justify="left", box=None)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    about = _about(rounds, other_cores)
    console.print(about)
    if page:
        page.write_text(_PAGE.format(table=markdown(rows), about=fill(about, _PAGE_WIDTH)))


def measure_case(hosts: str, workers: int) -> ScaleResult | None:
    """The result of one run; None, with a printed reason, if this machine refuses the case or the run fails."""
    layout = " ".join(["pw", *["w"] * (workers - 1)])
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as runs:
        command = [sys.executable, "-m", "paceline", "run", *_RUN, "--layout", layout, "--hosts", hosts]
        command += ["--runs", runs, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with sampled_usage(process.pid) as usage:
            output, messages = process.communicate()
        if process.returncode:
            console.print(f"  {hosts}, {workers} workers: not measured, {messages.strip().splitlines()[-1].strip()}")
            return None
        record = json.loads(output)
        start_s = training_start_s(Path(record["dir"]) / "events.jsonl")
    return summarize(record, usage, start_s)


@contextmanager
def sampled_usage(pid: int) -> Iterator[list[Usage]]:
    """Samples of what a process uses, its children not included. The list grows until the context ends."""
    process, samples, ended = psutil.Process(pid), list[Usage](), threading.Event()

    def sample() -> None:
        with suppress(psutil.Error):  # The process has ended.
            while not ended.wait(_SAMPLE_EVERY_S):
                with process.oneshot():
                    cpu, memory = process.cpu_times(), process.memory_info()
                samples.append(Usage(time.monotonic(), cpu.user + cpu.system, memory.rss / 1e6))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def training_start_s(events: Path) -> float:
    """When the barrier of a run opened, on the system's monotonic clock."""
    by_name = {event["event"]: event for event in _events(events)}
    zero_s: float = by_name[HEADER_EVENT]["clock_zero_ns"] / 1e9
    return zero_s + float(by_name["go"]["t_s"])


def summarize(record: dict[str, Any], usage: Sequence[Usage], start_s: float) -> ScaleResult:
    """`record`: the JSON of the run, whose training began at `start_s`."""
    begin, end = (usage[_index(usage, moment)] for moment in (start_s, start_s + record["train_s"]))
    return ScaleResult(
        first_step_s=record["first_step_s"],
        updates_per_s=record["updates_per_s"],
        controller_cores=(end.cpu_s - begin.cpu_s) / (end.at_s - begin.at_s),
        controller_memory_mb=max(sample.memory_mb for sample in usage),
        other_cores=record.get("other_cores_mean") or 0.0,
    )


def markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---|" + "---:|" * (len(_COLUMNS) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _index(usage: Sequence[Usage], moment_s: float) -> int:
    return min(bisect_left(usage, moment_s, key=lambda sample: sample.at_s), len(usage) - 1)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        yield json.loads(line)


def _median(results: Sequence[ScaleResult]) -> ScaleResult:
    fields = ScaleResult.__struct_fields__
    return ScaleResult(**{name: median(getattr(result, name) for result in results) for name in fields})


def _about(rounds: int, other_cores: float) -> str:
    """When and where the values were measured."""
    memory = f"{psutil.virtual_memory().total / 2**30:.0f} GiB of memory"
    software = f"Python {platform.python_version()}, torch {installed_version(['torch'])}"
    repeats = "once each" if rounds == 1 else f"median of {rounds} runs each"
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with Paceline {installed_version(['paceline'])}, {repeats}, on a "
        f"machine with {psutil.cpu_count()} cores and {memory}, {platform.system()}, {software}. "
        f"Other programs used up to {other_cores:.1f} cores meanwhile."
    )
