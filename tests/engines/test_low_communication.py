"""Strategies that exchange less or wait less, with real workers: local-sgd, diloco and ssp."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import paceline
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun
from paceline.train.checkpoint import update_of
from support.live_run import LiveRun

RunOne = Callable[..., Result]
SLOW = pytest.mark.slow
MODEL_MB = 7850 * 4 / 1e6


def final_parameters(result: Result) -> np.ndarray:
    tensors = load_file(Path(result.dir) / "checkpoints" / "final.safetensors")
    return np.concatenate([tensors[name].reshape(-1) for name in sorted(tensors)])


def step_rows(result: Result, kind: str) -> pl.DataFrame:
    steps = StoredRun(RunPaths(Path(result.dir))).steps
    return steps.filter((pl.col("kind") == kind) & ~pl.col("final"))


def test_averaging_parameters_in_every_step_equals_averaging_gradients(run_one: RunOne) -> None:
    """The exact limit of local-sgd: workers that start from the same parameters may average either."""
    averaged = run_one(strategy="local-sgd", layout="w w", sync_every=1, stop="steps=30")
    reference = run_one(strategy="allreduce", layout="w w", stop="steps=30")
    assert (averaged.status, averaged.updates) == ("ok", 30)
    np.testing.assert_allclose(final_parameters(averaged), final_parameters(reference), atol=2e-6)


def test_rounds_evaluate_and_store_only_the_global_parameters(run_one: RunOne) -> None:
    result = run_one(
        strategy="diloco", layout="w w", sync_every=8, stop="steps=29", eval_every=5, checkpoint_every=10, momentum=0.5
    )
    assert (result.status, result.updates, result.examples) == ("ok", 29, 29 * 200)
    # Due after 5, 10, 15, 20 and 25 updates: made when the round ends, at most once per round.
    assert step_rows(result, "eval")["update"].to_list() == [8, 16, 24]
    checkpoints = RunPaths(Path(result.dir)).checkpoints_newest_first()
    assert sorted(map(update_of, checkpoints)) == [16, 24]
    stored = load_file(checkpoints[0])
    assert {name.split("/")[0] for name in stored if "/" in name} == {"velocity", "velocity@1", "outer-velocity"}
    # The last round ends with the run, outside of its steps.
    assert step_rows(result, "push").group_by("task").len()["len"].to_list() == [3, 3]
    for worker in result.workers:
        assert worker.exchanged
        assert worker.exchanged.sent_mb == pytest.approx(3 * MODEL_MB, rel=0.01)
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.8


def test_workers_in_lockstep_give_what_ps_sync_gives_with_summed_gradients(run_one: RunOne) -> None:
    lockstep = run_one(strategy="ssp", layout="pw w", staleness_bound=0, lr=0.05, stop="steps=60")
    reference = run_one(strategy="ps-sync", layout="pw w", lr=0.1, stop="steps=30")
    assert (lockstep.status, lockstep.updates) == ("ok", 60)
    np.testing.assert_allclose(final_parameters(lockstep), final_parameters(reference), atol=2e-6)
    assert [worker.steps for worker in lockstep.workers] == [30, 30]
    assert max(worker.staleness.max for worker in lockstep.workers if worker.staleness) == 1
    assert all("wait" in worker.phases for worker in lockstep.workers)


@SLOW
@pytest.mark.alone
@pytest.mark.parametrize(("bound", "apart"), [("0", 1), ("5", 6), ("inf", None)])
def test_a_frozen_worker_stops_the_others_only_when_they_are_too_far_ahead(
    tmp_path: Path, bound: str, apart: int | None
) -> None:
    (result,) = paceline.run(
        "logreg", strategy="ssp", layout="pw w w", staleness_bound=bound, stop="seconds=4",
        fault="freeze w2 for 2s at 1s", runs=str(tmp_path),
    )  # fmt: skip
    assert result.status == "ok", result.reason
    ends = step_rows(result, "step").sort(pl.col("t_s") + pl.col("duration_s"))
    made, furthest = dict.fromkeys(("w0", "w1", "w2"), 0), 0
    for task in ends["task"]:
        made[task] += 1
        furthest = max(furthest, max(made.values()) - min(made.values()))
    if apart is None:
        assert furthest > 20
    else:
        assert furthest <= apart


@SLOW
@pytest.mark.alone
@pytest.mark.parametrize("strategy", ["local-sgd", "diloco"])
def test_a_killed_worker_ends_the_run_or_all_restart_from_the_checkpoint(tmp_path: Path, strategy: str) -> None:
    flags = ["--strategy", strategy, "--layout", "w w", "--stop", "steps=8000", "--set", "sync_every=10"]
    fault = ["--fault", "kill w1 at step 700"]
    code, failed = LiveRun(tmp_path / "fail", *flags, *fault).result()
    assert (code, failed["status"]) == (1, "failed")
    assert "w1" in failed["reason"]
    restart = ["--on-failure", "restart", "--checkpoint-every", "95"]
    code, result = LiveRun(tmp_path / "restart", *flags, *fault, *restart).result()
    assert (code, result["status"], result["updates"], result["tainted"]) == (0, "ok", 8000, True)


@SLOW
@pytest.mark.alone
def test_an_interrupt_ends_a_long_round_early_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    flags = ["--strategy", "diloco", "--layout", "w w", "--stop", "seconds=500", "--set", "sync_every=100000000"]
    run = LiveRun(tmp_path, *flags)
    run.wait_until_training()
    os.kill(run.process.pid, signal.SIGINT)
    code, result = run.result()
    assert (code, result["status"]) == (130, "aborted")
    (checkpoint,) = RunPaths(Path(result["dir"])).checkpoints_newest_first()
    assert update_of(checkpoint) == result["updates"]
    assert np.abs(load_file(checkpoint)["outer-velocity/" + min(load_file(checkpoint)).split("/")[-1]]).max() > 0


@SLOW
@pytest.mark.alone
def test_a_killed_worker_of_ssp_is_restarted_while_the_others_wait_for_it(tmp_path: Path) -> None:
    flags = ["--strategy", "ssp", "--layout", "pw w w", "--set", "staleness_bound=2", "--stop", "steps=9000"]
    run = LiveRun(tmp_path, *flags, "--fault", "kill w1 at step 500")
    code, result = run.result()
    assert (code, result["status"], result["updates"], result["tainted"]) == (0, "ok", 9000, False)
    assert [incident["task"] for incident in result["incidents"]] == ["w1"]
    steps = [worker["steps"] for worker in result["workers"]]
    assert max(steps) - min(steps) <= 3 + result["unrecorded_steps"]
