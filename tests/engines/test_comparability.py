"""All engines and strategies train the same model from the same initial weights with the same order of the data."""

from collections.abc import Callable
from pathlib import Path

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
