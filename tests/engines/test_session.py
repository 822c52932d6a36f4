"""Requests that TensorFlow rejects as duplicates, because two threads drew the same seed for their request numbers.

TensorFlow reads the seeds from /dev/urandom. These tests start a run in a mount namespace of its own, in which a pipe
with some repeated seeds replaces /dev/urandom. So what normally happens once in a hundred thousand requests happens to
every hundredth one.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from paceline.engines.tensorflow.session import retry_rejected
from support.live_run import LiveRun

SEED_BYTES = 4
PIPE_BYTES = 65536
DISTINCT_SEEDS = 100
"""Seeds at the start that do not repeat: a process draws some seeds for other purposes than requests."""
REPEAT_EVERY = 100
STEPS = 250
MAX_RUNS = 6
RETRY_MESSAGE = "rejected a request as a duplicate; retrying"
REPLACE_URANDOM = 'mount --bind "$0" /dev/urandom && exec "$@"'


@contextmanager
def repeating_seeds(path: Path) -> Iterator[None]:
    """A pipe at `path` that is filled with seeds."""
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    seeds = [secrets.token_bytes(SEED_BYTES) for _ in range(PIPE_BYTES // SEED_BYTES)]
    seeds[DISTINCT_SEEDS::REPEAT_EVERY] = seeds[DISTINCT_SEEDS - 1 : -1 : REPEAT_EVERY]
    assert os.write(pipe, b"".join(seeds)) == PIPE_BYTES
    try:
        yield
    finally:
        os.close(pipe)
        path.unlink()


def run_and_count_retries(runs: Path, workload: str, strategy: str, *launcher: str) -> tuple[dict[str, Any], int]:
    """The result of a run, and how many requests were retried."""
    options = ("--engine", "tensorflow", "--strategy", strategy, "--layout", "pw w", "--stop", f"steps={STEPS}")
    run = LiveRun(runs, *options, "--set", "trace_every=20", workload=workload, launcher=launcher)
    _, result = run.result()
    logs = [path.read_text() for path in (run.directory / "logs").glob("w*.log")]
    return result, sum(log.count(RETRY_MESSAGE) for log in logs)


def run_with_repeating_seeds(folder: Path, workload: str, strategy: str) -> dict[str, Any]:
    """The result of the first run that does not hang. Sometimes TensorFlow never returns from a rejection, and the
    watchdog ends the run."""
    for number in range(MAX_RUNS):
        seeds = folder / "seeds"
        with repeating_seeds(seeds):
            launcher = ("unshare", "--mount", "sh", "-c", REPLACE_URANDOM, str(seeds))
            result, retries = run_and_count_retries(folder / f"run{number}", workload, strategy, *launcher)
        if result["status"] == "ok":
            assert retries > 0
            return result
        assert "no progress" in result["reason"]
    raise AssertionError(f"{MAX_RUNS} runs in a row hung")


@pytest.mark.netns
@pytest.mark.parametrize("workload", ["logreg", "sparse-logreg"])
def test_sync_updates_are_neither_lost_nor_applied_twice(tmp_path: Path, workload: str) -> None:
    reference, retries = run_and_count_retries(tmp_path / "reference", workload, "ps-sync")
    assert retries == 0
    result = run_with_repeating_seeds(tmp_path, workload, "ps-sync")
    assert result["updates"] == reference["updates"] == STEPS
    assert result["final"]["loss"] == pytest.approx(reference["final"]["loss"], abs=1e-6)
    assert not result["incidents"]


@pytest.mark.netns
def test_async_updates_are_neither_lost_nor_applied_twice(tmp_path: Path) -> None:
    result = run_with_repeating_seeds(tmp_path, "logreg", "ps-async")
    assert result["updates"] == sum(worker["steps"] for worker in result["workers"]) == STEPS
    assert not result["tainted"]


class FailingRequest:
    """A request that raises the given errors, one per call, and then succeeds."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors, self.calls = errors, 0

    def __call__(self, *values: int) -> tuple[int, ...]:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return values


def rejection(
    text: str = "From /job:ps/replica:0/task:0:\nThe same RunGraph (Worker) request was received twice. id: 7",
) -> Any:
    return tf.errors.AbortedError(None, None, text)


def test_rejected_request_is_retried_with_the_same_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    cancellation = tf.errors.CancelledError(None, None, f"CANCELLED: recv is cancelled\nABORTED: {rejection().message}")
    request = FailingRequest([rejection(), cancellation])
    assert retry_rejected(request, (1, 2)) == (1, 2)
    assert request.calls == 3
    assert capfd.readouterr().err.count(RETRY_MESSAGE) == 2


@pytest.mark.parametrize(
    "error",
    [
        rejection("worker restarted"),
        rejection(
            "cancelled\nRecent logs:\n  W0000 aborting with The same RunGraph (Worker) request was received twice."
        ),
        rejection("The same RecvTensor (GrpcWorker) request was received twice."),
        tf.errors.UnavailableError(None, None, rejection().message),
    ],
)
def test_other_errors_are_raised_without_retry(error: Exception) -> None:
    request = FailingRequest([error])
    with pytest.raises(type(error)):
        retry_rejected(request, ())
    assert request.calls == 1


def test_number_of_retries_is_limited() -> None:
    request = FailingRequest([rejection() for _ in range(1000)])
    with pytest.raises(tf.errors.AbortedError):
        retry_rejected(request, ())
    assert request.calls < 100
