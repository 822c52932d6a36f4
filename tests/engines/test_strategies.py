"""Real training with every engine and strategy: exact counts, stop rules, phases and staleness."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from paceline.store.events import FinishedEvent
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

ENGINES = ("torch", "tensorflow")
CELLS = [
    (engine, strategy, layout)
    for engine in ENGINES
    for strategy, layout in (("single", "w"), ("ps-sync", "pw w"), ("ps-async", "pw w w"), ("allreduce", "w w"))
]


@pytest.mark.parametrize(("engine", "strategy", "layout"), CELLS)
def test_run_ends_at_the_loss_of_its_stop_rule(
    run_one: Callable[..., Result], engine: str, strategy: str, layout: str
) -> None:
    result = run_one(engine=engine, strategy=strategy, layout=layout, stop=["loss=0.6", "steps=5000"], eval_every=20)
    assert result.status == "ok", result.reason
    assert result.reached
    assert result.reached.rule == "loss=0.6"
    assert result.reached.at_update < 2000
    assert 0 < result.reached.at_s <= result.train_s + 1
    assert result.final.loss is not None
    assert result.final.loss < 0.65
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.8
    steps = [worker.steps for worker in result.workers]
    assert min(steps) > 0
    if strategy == "ps-async":
        assert sum(steps) == result.updates
    else:
        # The chief decides between two updates, so all workers have made the same number of steps.
        assert set(steps) == {result.updates} == {result.reached.at_update}
        assert result.updates % 20 == 0
    check_records(result)
    check_shard_sizes(result)
    check_exchanged(result)


def check_exchanged(result: Result) -> None:
    """Every step exchanges one gradient and one set of parameters of 7,850 values, whatever carries them."""
    if result.single_worker:
        assert result.exchanged is None
        return
    assert result.exchanged
    for worker in result.workers[1:]:  # The chief also pulls parameters for evaluations.
        assert worker.exchanged
        # A last step that does not count, because the run was over, is left out.
        for mb in (worker.exchanged.sent_mb, worker.exchanged.received_mb):
            assert mb == pytest.approx(worker.steps * 0.0314, rel=0.001)
    gradients = len(result.workers) if result.synchronous else 1
    assert result.exchanged.sent_mb_per_update == pytest.approx(gradients * 0.0314, rel=0.02)


def check_shard_sizes(result: Result) -> None:
    """The chief reports which server stores how many values of each parameter, if there are servers."""
    finished = StoredRun(RunPaths(Path(result.dir))).all(FinishedEvent)
    (sizes,) = [event.shard_sizes for event in finished if event.task == "w0"]
    assert sum(sum(parameters.values()) for parameters in sizes.values()) == (7_850 if sizes else 0)
    assert bool(sizes) == result.strategy.startswith("ps-")


def check_records(result: Result) -> None:
    """The stored steps match the counts of the result, and the phases account for their time."""
    table = pl.read_parquet(Path(result.dir) / "steps.parquet")
    counts = dict(table.filter(pl.col("kind") == "step").group_by("task").len().iter_rows())
    assert counts == {worker.task: worker.steps for worker in result.workers}
    for worker in result.workers:
        assert worker.phases["compute"] > 0
        assert worker.phases["data"] > 0
        # The phases account for the time of the steps: nothing large is left unexplained or counted twice.
        steps = table.filter((pl.col("task") == worker.task) & (pl.col("kind") == "step") & ~pl.col("traced"))
        step_seconds = float(steps["duration_s"].sum())
        phase_seconds = sum(seconds for phase, seconds in worker.phases.items() if phase != "eval")
        # Outside of steps there is the first pull, before the first step, and the wait of workers that agree whether
        # to stop, between steps.
        others = table.filter((pl.col("task") == worker.task) & pl.col("kind").is_in(["pull", "wait"]))
        starts, ends = steps["t_s"].to_numpy(), (steps["t_s"] + steps["duration_s"]).to_numpy()
        step_before = np.searchsorted(starts, others["t_s"].to_numpy(), "right") - 1
        outside = (step_before < 0) | (others["t_s"].to_numpy() >= ends[step_before])
        assert phase_seconds <= 1.01 * step_seconds + others["duration_s"].to_numpy()[outside].sum() + 0.02
        assert phase_seconds >= 0.8 * step_seconds
    evaluations = table.filter(pl.col("kind") == "eval")
    assert set(evaluations["task"]) == {"w0"}
    assert len(evaluations) >= 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("layout", ["pw w w", "pw pw"])
def test_async_applies_exactly_the_requested_updates(run_one: Callable[..., Result], engine: str, layout: str) -> None:
    result = run_one(engine=engine, strategy="ps-async", layout=layout, stop="steps=301")
    assert result.status == "ok"
    assert result.updates == sum(worker.steps for worker in result.workers) == 301
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    assert sorted(steps["update"].to_list()) == list(range(1, 302))
    staleness = [worker.staleness for worker in result.workers]
    assert all(summary is not None and 0 <= summary.mean <= summary.max < 301 for summary in staleness)


@pytest.mark.parametrize("engine", ENGINES)
def test_stop_rules_seconds_and_epochs_end_a_run(run_one: Callable[..., Result], engine: str) -> None:
    timed = run_one(engine=engine, strategy="allreduce", layout="w w", stop="seconds=1")
    assert timed.status == "ok"
    assert timed.reached
    assert timed.reached.rule == "seconds=1"
    assert timed.reached.at_s >= 1
    assert len({worker.steps for worker in timed.workers}) == 1
    epoch = run_one(engine=engine, strategy="ps-sync", layout="pw w", batch=1500, stop="epochs=2")
    assert epoch.updates == 40
    assert epoch.examples == 2 * 60_000


def test_rates_of_updates_and_examples_agree_in_a_traced_synchronous_run(run_one: Callable[..., Result]) -> None:
    result = run_one(engine="tensorflow", strategy="ps-sync", layout="pw w", stop="steps=100", trace_every=10)
    assert result.examples_per_s == pytest.approx(result.updates_per_s * 200, rel=1e-3)


def test_the_phases_of_a_run_of_three_tensorflow_steps_are_known(run_one: Callable[..., Result]) -> None:
    result = run_one(engine="tensorflow", strategy="ps-sync", layout="pw w", stop="steps=3")
    assert result.traced_steps == 2  # The second step of each worker.
    for worker in result.workers:
        assert {"pull", "compute", "push"} <= worker.phases.keys()
        assert "fused" not in worker.phases


def test_linear_scaling_multiplies_the_learning_rate_by_the_workers_of_an_update(
    run_one: Callable[..., Result],
) -> None:
    options: dict[str, Any] = {"strategy": "ps-sync", "layout": "pw w", "stop": "steps=20"}
    scaled, larger = run_one(lr=0.1, lr_scale="linear", **options), run_one(lr=0.2, **options)
    assert (scaled.lr, scaled.examples_per_update, scaled.settings["lr_scale"]) == (0.2, 200, "linear")
    assert scaled.final == larger.final


def test_too_high_learning_rate_is_reported_as_diverged(run_one: Callable[..., Result]) -> None:
    result = run_one(strategy="ps-async", layout="pw w", lr=3e38, stop="steps=500")
    assert result.status == "diverged"
    assert result.reason
    assert "learning rate" in result.reason
    assert result.reached is None
    assert Path(result.dir, "steps.parquet").exists()


def test_traced_steps_do_not_count_in_updates_per_second(run_one: Callable[..., Result]) -> None:
    result = run_one(engine="tensorflow", strategy="ps-async", layout="pw w", stop="steps=200", trace_every=10)
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    traced = steps.filter(pl.col("traced"))
    assert 10 <= len(traced) <= 25
    assert result.updates == 200
    expected = (200 - len(traced)) / (result.train_s - float(traced["duration_s"].sum()) / 2)
    assert result.updates_per_s == pytest.approx(expected, rel=0.01)
    assert {"pull", "compute", "push"} <= result.workers[0].phases.keys()
