"""Runs that do not reach their target end: at a plateau, or at their time limit."""

import time
from pathlib import Path

import pytest

from paceline.store.paths import RunPaths
from support.live_run import LAYOUTS, LiveRun, RunOne

NO_LEARNING = {"lr": 1e-9, "eval_every": 5, "eval_examples": 100, "batch": 10}
"""With this learning rate, rounding keeps every weight and loss as it is."""


@pytest.mark.parametrize(
    ("engine", "strategy"),
    [("torch", "ps-async"), ("torch", "allreduce"), pytest.param("tensorflow", "ps-sync", marks=pytest.mark.slow)],
)
def test_a_run_ends_at_a_plateau(run_one: RunOne, engine: str, strategy: str) -> None:
    result = run_one(engine=engine, strategy=strategy, layout=LAYOUTS[strategy], stop="plateau=4", **NO_LEARNING)
    assert result.status == "ok"
    assert result.reached
    assert result.reached.rule == "plateau=4"
    # The first evaluation is the best one; in an asynchronous run other workers make updates during an evaluation.
    assert result.reached.at_update >= 25
    assert result.to_target_s is None


def test_a_run_that_does_not_reach_its_target_fails_at_the_time_limit_with_its_results(tmp_path: Path) -> None:
    run = LiveRun(
        tmp_path, "--strategy", "ps-sync", "--layout", "pw w", "--stop", "loss=0.0001", "--time-limit", "4s",
        "--set", "lr=0.000000001", "--eval-every", "5", "--set", "eval_examples=100",
    )  # fmt: skip
    run.wait_until_training()
    started_s = time.monotonic()
    code, result = run.result()
    assert time.monotonic() - started_s < 30
    assert (code, result["status"], result["reached"]) == (1, "failed", None)
    assert result["reason"].startswith("did not reach loss=0.0001 within the time limit of 4s (best: loss ")
    assert result["reason"].endswith("raise the limit with --time-limit")
    assert result["final"]["loss"] is not None
    assert len({worker["steps"] for worker in result["workers"]}) == 1
    plateau, limit = (incident["what"] for incident in result["incidents"])
    assert plateau.startswith("no improvement for ")
    assert limit == result["reason"]
    assert RunPaths(run.directory).checkpoints_newest_first()
