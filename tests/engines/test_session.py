"""Requests that TensorFlow's runtime takes for each other, because two threads drew the same seed for their numbers.

Seeds come from /dev/urandom. In a mount namespace of its own, a run here finds a pipe in its place, in which some seeds
come twice: what else takes a hundred thousand steps happens to every hundredth.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from paceline.engines.tensorflow.session import asked_again
from support.live_run import LiveRun

SEED_BYTES = 4
PIPE_BYTES = 65536
FIRST = 100
"""Seeds that are all different: what is drawn once for a whole process is no request."""
BETWEEN = 100
STEPS = 250
TRIES = 6
IN_PLACE_OF_URANDOM = 'mount --bind "$0" /dev/urandom && exec "$@"'


@contextmanager
def repeating_seeds(path: Path) -> Iterator[None]:
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    seeds = [secrets.token_bytes(SEED_BYTES) for _ in range(PIPE_BYTES // SEED_BYTES)]
    seeds[FIRST::BETWEEN] = seeds[FIRST - 1 : -1 : BETWEEN]
    assert os.write(pipe, b"".join(seeds)) == PIPE_BYTES
    try:
        yield
    finally:
        os.close(pipe)
        path.unlink()


def outcome(runs: Path, workload: str, strategy: str, *under: str) -> tuple[dict[str, Any], int]:
    """The result, and how many requests were sent again."""
    what = ("--engine", "tensorflow", "--strategy", strategy, "--layout", "pw w", "--stop", f"steps={STEPS}")
    run = LiveRun(runs, *what, "--set", "trace_every=20", workload=workload, launcher=under)
    _, result = run.result()
    logs = [path.read_text() for path in (run.directory / "logs").glob("w*.log")]
    return result, sum(log.count("sent again") for log in logs)


def disturbed(folder: Path, workload: str, strategy: str) -> dict[str, Any]:
    """Now and then the runtime never comes back from a refusal, which the watchdog ends."""
    for number in range(TRIES):
        seeds = folder / "seeds"
        with repeating_seeds(seeds):
            under = ("unshare", "--mount", "sh", "-c", IN_PLACE_OF_URANDOM, str(seeds))
            result, again = outcome(folder / f"try{number}", workload, strategy, *under)
        if result["status"] == "ok":
            assert again > 0
            return result
        assert "no progress" in result["reason"]
    raise AssertionError(f"{TRIES} runs in a row hung")


@pytest.mark.netns
@pytest.mark.parametrize("workload", ["logreg", "sparse-logreg"])
def test_updates_are_neither_lost_nor_made_twice(tmp_path: Path, workload: str) -> None:
    undisturbed, never = outcome(tmp_path / "undisturbed", workload, "ps-sync")
    assert never == 0
    found = disturbed(tmp_path, workload, "ps-sync")
    assert found["updates"] == undisturbed["updates"] == STEPS
    assert found["final"]["loss"] == pytest.approx(undisturbed["final"]["loss"], abs=1e-6)
    assert not found["incidents"]


@pytest.mark.netns
def test_each_worker_makes_its_own_again(tmp_path: Path) -> None:
    found = disturbed(tmp_path, "logreg", "ps-async")
    assert found["updates"] == sum(worker["steps"] for worker in found["workers"]) == STEPS
    assert not found["tainted"]


class Refusing:
    """Something to ask that fails a few times."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors, self.asked = errors, 0

    def __call__(self, *values: int) -> tuple[int, ...]:
        self.asked += 1
        if self._errors:
            raise self._errors.pop(0)
        return values


def refusal(
    text: str = "From /job:ps/replica:0/task:0:\nThe same RunGraph (Worker) request was received twice. id: 7",
) -> Any:
    return tf.errors.AbortedError(None, None, text)


def test_what_was_refused_is_asked_again_with_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    followed = tf.errors.CancelledError(None, None, f"CANCELLED: recv is cancelled\nABORTED: {refusal().message}")
    ask = Refusing([refusal(), followed])
    assert asked_again(ask, (1, 2)) == (1, 2)
    assert ask.asked == 3
    assert capfd.readouterr().err.count("sent again") == 2


@pytest.mark.parametrize(
    "error",
    [
        refusal("worker restarted"),
        refusal(
            "cancelled\nRecent logs:\n  W0000 aborting with The same RunGraph (Worker) request was received twice."
        ),
        refusal("The same RecvTensor (GrpcWorker) request was received twice."),
        tf.errors.UnavailableError(None, None, refusal().message),
    ],
)
def test_other_errors_are_errors(error: Exception) -> None:
    ask = Refusing([error])
    with pytest.raises(type(error)):
        asked_again(ask, ())
    assert ask.asked == 1


def test_it_does_not_ask_for_ever() -> None:
    ask = Refusing([refusal() for _ in range(1000)])
    with pytest.raises(tf.errors.AbortedError):
        asked_again(ask, ())
    assert ask.asked < 100
