"""Initial weights, activation, order of the examples, evaluation by all workers and histograms, on both engines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import paceline
from paceline.errors import PacelineError
from paceline.spec.run_options import RunSpec
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun
from paceline.workloads.model import initial_parameters
from paceline.workloads.registry import workload

ENGINES = ("torch", "tensorflow")
MakeRun = Callable[..., Result]


def steps_of(result: Result) -> pl.DataFrame:
    return StoredRun(RunPaths(Path(result.dir))).steps


def first_losses(name: str, runs: Path, **fields: Any) -> list[list[float]]:
    """The losses of the first steps with each engine."""
    results = paceline.run(name, engine=list(ENGINES), stop="steps=4", eval_examples=100, runs=str(runs), **fields)
    assert [result.status for result in results] == ["ok", "ok"]
    return [steps_of(result).filter(pl.col("kind") == "step").sort("step")["loss"].to_list() for result in results]


def test_engines_train_alike_with_chosen_weights_activation_and_order(tmp_path: Path) -> None:
    plain, _ = first_losses("lenet", tmp_path / "plain", batch=20, examples=400)
    chosen = {"init": "uniform:-0.1:0.1", "activation": "tanh", "shuffle": 50, "steps_per_epoch": 2}
    torch, tensorflow = first_losses("lenet", tmp_path / "chosen", batch=20, examples=400, **chosen)
    assert torch == pytest.approx(tensorflow, rel=1e-4)
    assert torch != pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_worker_evaluates_and_histograms_match_the_parameters(run_one: MakeRun, engine: str) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = run_one(
        engine=engine, strategy="ps-sync", layout="pw w", stop="steps=40", eval_every=20, eval_examples=500,
        eval_by="workers", histograms=True, init="normal:1",
    )  # fmt: skip
    assert result.status == "ok", result.reason
    evaluations = steps_of(result).filter((pl.col("kind") == "eval") & ~pl.col("final"))
    assert sorted(evaluations.select("task", "update").rows()) == [("w0", 20), ("w0", 40), ("w1", 20), ("w1", 40)]
    # In synchronous training all workers have the same parameters, and so the same accuracy.
    assert evaluations.group_by("update").agg(pl.col("accuracy").n_unique())["accuracy"].to_list() == [1, 1]
    paths = RunPaths(Path(result.dir))
    events = EventAccumulator(str(paths.tensorboard_of("w0")), {"histograms": 0}).Reload()
    last = events.Histograms("parameters/0.weight")[-1]
    weight = load_file(paths.checkpoints / "final.safetensors")["0.weight"]
    assert (last.step, last.histogram_value.num) == (40, weight.size)
    assert last.histogram_value.max == pytest.approx(weight.max(), rel=1e-5)
    assert last.histogram_value.sum_squares == pytest.approx(np.square(weight, dtype=np.float64).sum(), rel=1e-4)


def test_initial_weights_have_the_chosen_distribution() -> None:
    model = workload("alexnet", "cifar").model
    assert model
    normal = initial_parameters(model.changed(init="normal:2", activation=None), 1)
    assert all(np.std(value) == pytest.approx(2, rel=0.2) for value in normal.values() if value.size > 50)
    uniform = np.concatenate(
        [v.ravel() for v in initial_parameters(model.changed(init="uniform:-10:4", activation=None), 1).values()]
    )
    assert (uniform.min(), uniform.max()) == (pytest.approx(-10, abs=0.01), pytest.approx(4, abs=0.01))
    assert uniform.mean() == pytest.approx(-3, abs=0.01)
    constant = initial_parameters(model.changed(init="constant:0.5", activation=None), 1)
    assert {float(value) for values in constant.values() for value in np.unique(values)} == {0.5}


def test_a_part_of_the_chosen_weights_is_drawn_without_the_rest() -> None:
    model = workload("sparse-logreg").model
    assert model
    chosen = model.changed(init="normal:1", activation=None)
    part = slice(5_000_000, 5_000_100)
    assert (chosen.first(1, part) == chosen.first(1, slice(4_999_000, 5_100_000))[1_000:1_100]).all()


def test_the_map_of_a_spatial_transformer_stays_the_identity() -> None:
    model = workload("spatial-transformer").model
    assert model
    values = initial_parameters(model.changed(init="normal:1", activation="tanh"), 1)
    assert not values["0.map.weight"].any()
    assert values["0.map.bias"].tolist() == [1, 0, 0, 0, 1, 0]
    assert values["0.1.weight"].any()


@pytest.mark.parametrize(
    ("workload_name", "fields", "message"),
    [
        ("logreg", {"init": "normal"}, "init 'normal': must be normal:1"),
        ("logreg", {"init": "uniform:3:1"}, "must not be above the highest"),
        ("logreg", {"init": "normal:nan"}, "must be normal:1"),
        ("logreg", {"activation": "tanh"}, "no activation that could be changed"),
        ("matmul", {"init": "normal:1"}, "no layers whose initial weights"),
        ("sparse-logreg", {"shard": "worker"}, "decides itself in which order"),
        ("logreg", {"shuffle": "-3"}, "shuffle '-3': must be all, none, or the number"),
    ],
)
def test_options_without_effect_are_refused(
    tmp_path: Path, workload_name: str, fields: dict[str, Any], message: str
) -> None:
    extra: dict[str, Any] = {"strategy": "allreduce"} if workload_name == "matmul" else {}
    with pytest.raises(PacelineError, match=message):
        paceline.run(workload_name, runs=str(tmp_path / "runs"), stop="steps=1", **extra, **fields)


def test_steps_per_epoch_decides_when_an_epoch_ends(run_one: MakeRun) -> None:
    result = run_one(steps_per_epoch=7, stop="epochs=3", batch=10, examples=1000)
    assert result.updates == 21
    assert RunSpec(workload="logreg").steps_per_epoch is None
