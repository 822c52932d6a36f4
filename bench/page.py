"""What the live page costs training: pages are opened and closed by turns while one run trains.

Two runs on one machine differ by more than a page costs; neighbouring seconds of one run, taken many times, do not.
Each pair of time slots has one with the page and one without it, in a random order.
"""

import http.client
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

import msgspec
import numpy as np
import psutil

from bench.cpu_steal import stolen_s
from bench.interleaved import Block, slowdown, slowdown_interval
from bench.measure import console
from paceline.store.paths import RunPaths, all_runs
from paceline.store.run import StoredRun

RUN_S = 120
SLOT_S = 4.0
"""As long as the interval between two searches for the bottleneck, so that each slot with a page has one."""
SETTLE_S = 0.8
"""The start of a slot that does not count: the page opens, or its last update is still in progress."""
COMMAND = ["run", "logreg", "--strategy", "ps-async", "--layout", "pw w", "--set", "eval_every=1000000000"]
_START_S = 60.0


class Slot(msgspec.Struct, frozen=True):
    """A time slot, without its start that does not count."""

    is_open: bool
    start_ns: int
    end_ns: int
    server_cpu_s: float
    """CPU time that the server of the page used."""
    stolen_s: float


class Viewer(Protocol):
    """Opens and closes the live page of a run."""

    def open(self, run: str) -> None: ...

    def close(self) -> None: ...


class _Stream:
    """What an open page on another machine causes here: the stream of the state of the run."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._connection: http.client.HTTPConnection | None = None

    def open(self, run: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        self._connection.request("GET", f"/api/live?{urlencode({'run': run, 'token': self._token})}")
        threading.Thread(target=self._read, args=(self._connection,), daemon=True).start()

    def close(self) -> None:
        if self._connection and self._connection.sock:
            # Shut down first: it ends the read of the other thread.
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._connection.close()

    @staticmethod
    def _read(connection: http.client.HTTPConnection) -> None:
        with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            answer = connection.getresponse()
            while answer.read1(1 << 20):
                pass


@contextmanager
def _stream(port: int, token: str) -> Iterator[Viewer]:
    viewer = _Stream(port, token)
    yield viewer
    viewer.close()


@contextmanager
def _browser(port: int, token: str) -> Iterator[Viewer]:
    """The page in Chromium on this machine, which also draws it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()

        class Chromium:
            def open(self, run: str) -> None:
                page.goto(f"http://127.0.0.1:{port}/?token={token}#/run/{run}")

            def close(self) -> None:
                page.goto("about:blank")

        yield Chromium()
        browser.close()


CASES: dict[str, Callable[[int, str], AbstractContextManager[Viewer]]] = {
    "page open elsewhere": _stream,
    "page open in Chromium here": _browser,
}


@contextmanager
def _server(runs: Path) -> Iterator[tuple[psutil.Process, int, str]]:
    """The server of the page: its process, port and token."""
    command = [sys.executable, "-m", "paceline", "ui", "--port", "0", "--runs", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        base, token = process.stdout.readline().strip().partition("/?token=")[::2]
        try:
            yield psutil.Process(process.pid), int(base.rpartition(":")[2]), token
        finally:
            process.terminate()


def run_by_turns(case: Callable[[int, str], AbstractContextManager[Viewer]], seconds: float, seed: int) -> list[Block]:
    """Train once, with the page open in every other slot; returns the pairs of slots, and prints the server's load."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as directory:
        runs = Path(directory) / "runs"
        runs.mkdir()
        command = [sys.executable, "-m", "paceline", *COMMAND, "--stop", f"seconds={seconds:g}", "--runs", str(runs)]
        with _server(runs) as (server, port, token), case(port, token) as viewer:
            training = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                paths = _training_run(runs, training)
                slots = _slots(training, paths, viewer, server, random.Random(seed))
                if training.wait():
                    raise RuntimeError(f"the benchmark run ended with exit code {training.returncode}")
            finally:
                training.kill()
                training.wait()
        _print_load(slots)
        return blocks_of(slots, *_steps(paths))


def _training_run(runs: Path, training: "subprocess.Popen[bytes]") -> RunPaths:
    """The run, as soon as it trains."""
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s and training.poll() is None:
        for paths in all_runs(runs):
            if paths.events.exists() and b'"go"' in paths.events.read_bytes():
                return paths
        time.sleep(0.1)
    raise RuntimeError("the benchmark run did not begin to train")


def _slots(
    training: "subprocess.Popen[bytes]",
    paths: RunPaths,
    viewer: Viewer,
    server: psutil.Process,
    rng: random.Random,
) -> list[Slot]:
    """Open and close the page until the training has ended; the slots that are over by then."""
    slots: list[Slot] = []
    while True:
        for is_open in rng.sample([True, False], 2):
            begin_s = time.monotonic()
            (viewer.open(paths.id) if is_open else viewer.close())
            if not _wait_until(training, begin_s + SETTLE_S):
                return slots
            before_s, stolen_before_s, start_ns = _cpu_s(server), stolen_s(), time.monotonic_ns()
            if not _wait_until(training, begin_s + SLOT_S):
                return slots
            end_ns = time.monotonic_ns()
            slots.append(Slot(is_open, start_ns, end_ns, _cpu_s(server) - before_s, stolen_s() - stolen_before_s))


def _wait_until(training: "subprocess.Popen[bytes]", moment_s: float) -> bool:
    """Whether the run is still being made at this moment."""
    time.sleep(max(0.0, moment_s - time.monotonic()))
    return training.poll() is None


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _steps(paths: RunPaths) -> tuple[np.ndarray, tuple[int, int]]:
    """When each step of any worker ended, and when the training began and ended, on the clock of this machine."""
    run = StoredRun(paths)
    steps = run.steps.filter(run.steps["kind"] == "step")
    ends_s = np.sort((steps["t_s"] + steps["duration_s"]).to_numpy())
    ends_ns = (ends_s * 1e9).astype(np.int64) + run.header.clock_zero_ns
    return ends_ns, (int(ends_ns[0]), int(ends_ns[-1]))


def blocks_of(slots: Sequence[Slot], ends_ns: np.ndarray, training: tuple[int, int]) -> list[Block]:
    """One block for each pair of slots within the training: its steps per second with and without the page."""
    blocks = []
    for pair in zip(slots[::2], slots[1::2], strict=False):
        if pair[0].start_ns < training[0] or pair[1].end_ns > training[1]:
            continue
        rates = {slot.is_open: _rate(slot, ends_ns) for slot in pair}
        seconds = sum(slot.end_ns - slot.start_ns for slot in pair) / 1e9
        blocks.append(Block(rates[True], rates[False], sum(slot.stolen_s for slot in pair) / seconds))
    return blocks


def _rate(slot: Slot, ends_ns: np.ndarray) -> float:
    first, last = np.searchsorted(ends_ns, [slot.start_ns, slot.end_ns])
    return float(last - first) / ((slot.end_ns - slot.start_ns) / 1e9)


def _print_load(slots: Sequence[Slot]) -> None:
    for is_open, name in ((True, "open"), (False, "closed")):
        chosen = [slot for slot in slots if slot.is_open is is_open]
        seconds = sum(slot.end_ns - slot.start_ns for slot in chosen) / 1e9
        load = sum(slot.server_cpu_s for slot in chosen) / seconds if seconds else 0.0
        console.print(f"  page {name}: its server used {100 * load:.1f} % of a core", style="dim")


def page(rounds: int) -> None:
    """What the live page costs training."""
    for name, case in CASES.items():
        blocks: list[Block] = []
        for number in range(1, rounds + 1):
            complete = run_by_turns(case, RUN_S, seed=number)
            blocks += [block for block in complete if not block.is_disturbed]
            left_out = sum(block.is_disturbed for block in complete)
            console.print(f"  {name}, run {number} of {rounds}: {_summary(blocks)}; left out: {left_out}", style="dim")
        console.print(f"{name}: {_summary(blocks)}")


def _summary(blocks: Sequence[Block]) -> str:
    if not blocks:
        return "no usable pair of time slots: CPU steal was too high"
    low, high = slowdown_interval(blocks)
    without = sum(block.unmeasured for block in blocks) / len(blocks)
    interval = f"95 % interval {100 * low:.1f} to {100 * high:.1f}"
    return f"{100 * slowdown(blocks):.2f} % slower ({interval}, {len(blocks)} pairs, {without:,.0f} steps/s without)"
