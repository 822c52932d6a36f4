"""Requests of TensorFlow get numbers that do not repeat, whatever seeds its threads draw."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.engines.tensorflow import request_numbers
from support.live_run import LiveRun
from support.repeating_seeds import repeating_seeds

REPEAT_EVERY = 10
STEPS = 600
MOST_SEEDS = 400
"""More seeds than the tasks of a run draw for other purposes, and fewer than a run has requests."""
MAY_REPEAT = "Request numbers of TensorFlow may repeat"
DRAW_IN_NEW_THREADS = """
import ctypes, threading
from pathlib import Path
import tensorflow as tf
from paceline.engines.tensorflow.request_numbers import use_one_generator
assert use_one_generator() and use_one_generator()
new_request = ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), "libtensorflow_cc.so.2")))[
    "_ZN10tensorflow18GetUniqueRequestIdEv"
]
new_request.restype = ctypes.c_uint64
numbers = set()
for _ in range(1000):
    thread = threading.Thread(target=lambda: numbers.add(new_request()))
    thread.start()
    thread.join()
assert len(numbers) == 1000, len(numbers)
assert max(numbers).bit_length() > 60
"""


def run(runs: Path, workload: str, strategy: str, *launcher: str) -> tuple[dict[str, Any], str]:
    """The result of a run, and the logs of its tasks."""
    options = ("--engine", "tensorflow", "--strategy", strategy, "--layout", "pw w", "--stop", f"steps={STEPS}")
    live = LiveRun(runs, *options, "--set", "trace_every=20", workload=workload, launcher=launcher)
    _, result = live.result()
    return result, "".join(path.read_text() for path in (live.directory / "logs").glob("*.log"))


def run_with_repeating_seeds(folder: Path, workload: str, strategy: str) -> dict[str, Any]:
    """The result of a run in which no request was rejected."""
    with repeating_seeds(folder / "seeds", REPEAT_EVERY) as seeds:
        result, logs = run(folder / "run", workload, strategy, *seeds.launcher)
        assert 0 < seeds.drawn < MOST_SEEDS
    assert result["status"] == "ok", result["reason"]
    assert "duplicate" not in logs
    assert MAY_REPEAT not in logs
    assert not result["incidents"]
    return result


@pytest.mark.netns
@pytest.mark.parametrize("workload", ["logreg", "sparse-logreg"])
def test_no_request_of_a_synchronous_run_is_rejected(tmp_path: Path, workload: str) -> None:
    reference, _ = run(tmp_path / "reference", workload, "ps-sync")
    result = run_with_repeating_seeds(tmp_path, workload, "ps-sync")
    assert result["updates"] == reference["updates"] == STEPS
    assert result["final"]["loss"] == pytest.approx(reference["final"]["loss"], abs=1e-6)


@pytest.mark.netns
def test_no_request_of_an_asynchronous_run_is_rejected(tmp_path: Path) -> None:
    result = run_with_repeating_seeds(tmp_path, "logreg", "ps-async")
    assert result["updates"] == sum(worker["steps"] for worker in result["workers"]) == STEPS
    assert not result["tainted"]


@pytest.mark.netns
def test_numbers_drawn_in_new_threads_do_not_repeat(tmp_path: Path) -> None:
    with repeating_seeds(tmp_path / "seeds", REPEAT_EVERY) as seeds:
        subprocess.run([*seeds.launcher, sys.executable, "-c", DRAW_IN_NEW_THREADS], check=True)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("_PER_PROCESS", "no_such_function", "no_such_function"), ("_RUNTIME", "missing.so", "missing.so")],
)
def test_log_says_if_numbers_may_repeat(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, value: str, reason: str
) -> None:
    monkeypatch.setattr(request_numbers, name, value)
    assert not request_numbers.use_one_generator.__wrapped__()
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith(MAY_REPEAT)
    assert reason in line
    assert "--checkpoint-every" in line
