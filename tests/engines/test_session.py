"""Requests that TensorFlow's runtime takes for each other, because two threads drew the same seed for their numbers.

Seeds come from /dev/urandom. In a mount namespace of its own, a run here finds a pipe in its place, in which some seeds
come twice: what else takes a hundred thousand steps happens to every fiftieth.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from live import LiveRun

SEED_BYTES = 4
PIPE_BYTES = 65536
FIRST = 100
"""Seeds that are all different: what is drawn once for a whole process is no request."""
BETWEEN = 50
STEPS = 250
TRIES = 4
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


def outcome(runs: Path, strategy: str, *under: str) -> tuple[dict[str, Any], int]:
    """The result, and how many requests were sent again."""
    what = ("--engine", "tensorflow", "--strategy", strategy, "--layout", "pw w", "--stop", f"steps={STEPS}")
    run = LiveRun(runs, *what, "--set", "trace_every=20", under=under)
    _, result = run.result()
    logs = [path.read_text() for path in (run.directory / "logs").glob("w*.log")]
    return result, sum(log.count("sent again") for log in logs)


def disturbed(folder: Path, strategy: str) -> dict[str, Any]:
    """In a few of a hundred cases the runtime never comes back from a refusal, which the watchdog ends."""
    for number in range(TRIES):
        seeds = folder / "seeds"
        with repeating_seeds(seeds):
            under = ("unshare", "--mount", "sh", "-c", IN_PLACE_OF_URANDOM, str(seeds))
            result, again = outcome(folder / f"try{number}", strategy, *under)
        if result["status"] == "ok":
            assert again > 0
            return result
        assert "no progress" in result["reason"]
    raise AssertionError(f"{TRIES} runs in a row hung")


@pytest.mark.netns
def test_updates_are_neither_lost_nor_made_twice(tmp_path: Path) -> None:
    undisturbed, never = outcome(tmp_path / "undisturbed", "ps-sync")
    assert never == 0
    found = disturbed(tmp_path, "ps-sync")
    assert found["updates"] == undisturbed["updates"] == STEPS
    assert found["final"]["loss"] == pytest.approx(undisturbed["final"]["loss"], abs=1e-6)
    assert not found["incidents"]


@pytest.mark.netns
def test_each_worker_makes_its_own_again(tmp_path: Path) -> None:
    found = disturbed(tmp_path, "ps-async")
    assert found["updates"] == sum(worker["steps"] for worker in found["workers"]) == STEPS
    assert not found["tainted"]
