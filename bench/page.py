"""What the live page costs training: the same run without the page, with a page's connection, and with a browser.

The cases take turns, so that a slow drift of the machine changes all of them alike.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SECONDS = 9
"""Of training in each run."""
COMMAND = ["run", "logreg", "--strategy", "ps-async", "--layout", "pw w", "--stop", f"seconds={SECONDS}", "--json"]


@contextmanager
def _server(runs: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "paceline", "ui", "--port", "0", "--runs", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()


@contextmanager
def _connection(runs: Path) -> Iterator[None]:
    """What an open page on another machine causes here: the stream of the state of the run."""
    with _server(runs) as url:
        base, token = url.partition("/?token=")[::2]
        ended = threading.Event()

        def read() -> None:
            while not ended.is_set():
                try:
                    rows = json.load(urllib.request.urlopen(f"{base}/api/runs?token={token}", timeout=5))["rows"]
                    for run in [row[0] for row in rows if row[1] == "running"]:
                        with urllib.request.urlopen(f"{base}/api/live?run={run}&token={token}", timeout=30) as events:
                            for _ in events:
                                pass
                except OSError:
                    pass
                ended.wait(0.3)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        yield
        ended.set()


@contextmanager
def _browser(runs: Path) -> Iterator[None]:
    """The page in Chromium on this machine, which also draws it."""
    from playwright.sync_api import sync_playwright

    with _server(runs) as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{url}#/latest")
        yield
        browser.close()


@contextmanager
def _nothing(_runs: Path) -> Iterator[None]:
    yield


CASES: dict[str, Callable[[Path], object]] = {
    "without the page": _nothing,
    "page open elsewhere": _connection,
    "page open in Chromium here": _browser,
}


def _updates_per_s(case: Callable[[Path], object]) -> float:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        runs = Path(directory) / "runs"
        runs.mkdir()
        stack.enter_context(case(runs))  # type: ignore[arg-type]
        time.sleep(1)  # The browser starts; its start is not what is measured.
        done = subprocess.run(
            [sys.executable, "-m", "paceline", *COMMAND, "--runs", str(runs)], stdout=subprocess.PIPE, check=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return float(json.loads(done.stdout)["updates_per_s"])


def page(rounds: int) -> None:
    """What the live page costs training."""
    found: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, case in CASES.items():
            found[name].append(_updates_per_s(case))
            print(f"{name}: {found[name][-1]:,.0f} updates/s", flush=True)
    base = statistics.median(found["without the page"])
    for name, values in found.items():
        median = statistics.median(values)
        shown = ", ".join(f"{value:,.0f}" for value in values)
        print(f"{name:28} {median:8,.0f} updates/s  {100 * (median / base - 1):+5.1f} %   [{shown}]")
