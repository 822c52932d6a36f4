"""All engines and strategies train the same model from the same initial weights with the same order of the data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from paceline.store.result import Result
from paceline.workloads.parameters import Parameters

ENGINES = ("torch", "tensorflow")


def losses(result: Result) -> np.ndarray:
    """The loss of the global batch in each step."""
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    return steps.group_by("step").agg(pl.col("loss").mean()).sort("step")["loss"].to_numpy()


def final_parameters(result: Result) -> Parameters:
    return load_file(Path(result.dir) / "checkpoints" / "final.safetensors")


def largest_difference(result: Result, other: Result) -> float:
    """The largest largest_difference between the final values of a parameter in two runs."""
    first, second = final_parameters(result), final_parameters(other)
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


def test_engines_and_synchronous_strategies_have_equal_losses(run_one: Callable[..., Result]) -> None:
    """In the first 20 steps, at the same global batch of 120."""
    losses_by_cell = {
        (engine, strategy): losses(
            run_one(engine=engine, strategy=strategy, layout=layout, batch=batch, stop="steps=20")
        )
        for engine in ENGINES
        for strategy, layout, batch in (("single", "w", 120), ("ps-sync", "pw w", 60), ("allreduce", "w w", 60))
    }
    reference = losses_by_cell["torch", "single"]
    assert reference.shape == (20,)
    assert reference[0] > reference[-1]
    for cell, series in losses_by_cell.items():
        assert np.abs(series - reference).max() < 1e-4, cell


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("strategy", "layout", "workers"),
    [
        ("ps-sync", "pw w", 2),
        ("ps-sync", "pw w w", 3),
        ("ps-sync", "pw pw", 2),
        ("allreduce", "w w", 2),
        ("allreduce", "w w w", 3),
    ],
)
def test_n_workers_with_batch_b_equal_one_worker_with_batch_n_times_b(
    run_one: Callable[..., Result], engine: str, strategy: str, layout: str, workers: int
) -> None:
    distributed = run_one(engine=engine, strategy=strategy, layout=layout, batch=40, stop="steps=50")
    single = run_one(engine="torch", strategy="single", batch=40 * workers, stop="steps=50")
    assert distributed.updates == single.updates == 50
    assert distributed.examples == single.examples
    assert largest_difference(distributed, single) < 1e-4
    assert np.abs(losses(distributed) - losses(single)).max() < 1e-4
    assert abs((distributed.final.loss or 0) - (single.final.loss or 0)) < 1e-4


def test_one_asynchronous_worker_equals_single(run_one: Callable[..., Result]) -> None:
    single = run_one(strategy="single", stop="steps=50")
    for engine in ENGINES:
        asynchronous = run_one(engine=engine, strategy="ps-async", layout="pw", stop="steps=50")
        assert largest_difference(asynchronous, single) < 1e-4


CLIPPED = "schedule=cosine:warmup=5:updates=40 clip=0.5 param_groups=*bias:weight_decay=0:lr_scale=2"
SMALL_CELLS = [("torch", "ps-sync", "pw pw"), ("torch", "allreduce", "w w"), ("tensorflow", "ps-sync", "pw w")]
ALL_CELLS = [
    *SMALL_CELLS,
    ("torch", "ps-sync", "pw w"),
    ("torch", "ps-async", "pw"),
    ("tensorflow", "single", "w"),
    ("tensorflow", "ps-async", "pw"),
    ("tensorflow", "allreduce", "w w"),
]


def check_optimizer(
    run_one: Callable[..., Result], cells: list[tuple[str, str, str]], settings: dict[str, str]
) -> None:
    """Every cell has the losses of one worker on torch, with the same global batch."""
    single = run_one(engine="torch", strategy="single", batch=120, stop="steps=30", **settings)
    for engine, strategy, layout in cells:
        batch = 120 // layout.count("w")
        result = run_one(engine=engine, strategy=strategy, layout=layout, batch=batch, stop="steps=30", **settings)
        assert result.optimizer == single.optimizer
        # adam divides by the size of a gradient, so that rounding errors of weights with tiny gradients count.
        assert np.abs(losses(result) - losses(single)).max() < 1e-3, (engine, strategy)


def test_adamw_with_a_schedule_groups_and_clipping_is_the_same_everywhere(run_one: Callable[..., Result]) -> None:
    settings = dict(pair.split("=", 1) for pair in CLIPPED.split())
    check_optimizer(run_one, SMALL_CELLS, {"optimizer": "adamw:weight_decay=0.1", "lr": "0.01", **settings})


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["memory", "tcp"])
@pytest.mark.parametrize("workload", ["logreg", "sparse-logreg", "alexnet:cifar"])
def test_several_servers_clip_by_the_norm_of_the_whole_gradient(tmp_path: Path, workload: str, transport: str) -> None:
    """A clip far below the norm of the gradients, so that the norm of a part would give other losses. The last model
    has several buckets on each server."""
    import paceline

    steps, sizes = ("6", 8) if workload.startswith("alexnet") else ("20", 60)
    name, _, size = workload.partition(":")
    shared: dict[str, Any] = {
        "stop": f"steps={steps}",
        "clip": 0.02,
        "lr": 0.5,
        "examples": 2000,
        "runs": str(tmp_path),
    }
    shared |= {"size": size} if size else {}
    (single,) = paceline.run(name, batch=sizes, eval_examples=100, **shared)
    (several,) = paceline.run(
        name, strategy="ps-sync", layout="p p w w", transport=transport, batch=sizes // 2, eval_examples=100, **shared
    )
    assert several.updates == single.updates
    assert np.abs(losses(several) - losses(single)).max() < 1e-4
    assert largest_difference(several, single) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd:weight_decay=0.01", "momentum", "nesterov", "adagrad", "adam", "adamw"])
def test_every_optimizer_is_the_same_with_every_engine_and_strategy(
    run_one: Callable[..., Result], optimizer: str
) -> None:
    check_optimizer(run_one, ALL_CELLS, {"optimizer": optimizer, "lr": "0.01", "schedule": "linear:warmup=4"})


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adagrad:epsilon=1e-3", "adam:epsilon=1e-3"])
@pytest.mark.parametrize("clip", [None, 0.01])
def test_optimizers_of_sparse_models_are_the_same_with_both_engines(
    tmp_path: Path, optimizer: str, clip: float | None
) -> None:
    """With the usual epsilon, a gradient that is 0 but for rounding errors would change its weight by the whole
    learning rate: in the first step, the gradients of many rows cancel out."""
    import paceline

    results = [
        paceline.run(
            "sparse-logreg", engine=engine, strategy=strategy, layout=layout, batch=100 // layout.count("w"),
            stop="steps=20", eval_examples=100, examples=5000, optimizer=optimizer, lr=0.05, clip=clip,
            runs=str(tmp_path),
        )[0]
        for engine in ENGINES
        for strategy, layout in (("single", "w"), ("ps-sync", "pw w"), ("ps-sync", "pw pw"))
    ]  # fmt: skip
    for result in results:
        assert result.status == "ok", result.reason
        assert np.abs(losses(result) - losses(results[0])).max() < 1e-4, (result.engine, result.strategy)
