"""The same model, the same first weights, the same data order, whatever the engine and strategy."""

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
    """The loss of the global batch, step by step."""
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    return steps.group_by("step").agg(pl.col("loss").mean()).sort("step")["loss"].to_numpy()


def parameters(result: Result) -> Parameters:
    return load_file(Path(result.dir) / "checkpoints" / "final.safetensors")


def difference(one: Result, other: Result) -> float:
    first, second = parameters(one), parameters(other)
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


def test_engines_start_alike_and_stay_together(run_one: Callable[..., Result]) -> None:
    """The first 20 losses of every engine and synchronous strategy, at the same global batch of 120."""
    found = {
        (engine, strategy): losses(
            run_one(engine=engine, strategy=strategy, layout=layout, batch=batch, stop="steps=20")
        )
        for engine in ENGINES
        for strategy, layout, batch in (("single", "w", 120), ("ps-sync", "pw w", 60), ("allreduce", "w w", 60))
    }
    reference = found["torch", "single"]
    assert reference.shape == (20,)
    assert reference[0] > reference[-1]
    for cell, series in found.items():
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
def test_n_workers_with_batch_b_give_what_one_gives_with_n_times_b(
    run_one: Callable[..., Result], engine: str, strategy: str, layout: str, workers: int
) -> None:
    together = run_one(engine=engine, strategy=strategy, layout=layout, batch=40, stop="steps=50")
    alone = run_one(engine="torch", strategy="single", batch=40 * workers, stop="steps=50")
    assert together.updates == alone.updates == 50
    assert together.examples == alone.examples
    assert difference(together, alone) < 1e-4
    assert np.abs(losses(together) - losses(alone)).max() < 1e-4
    assert abs((together.final.loss or 0) - (alone.final.loss or 0)) < 1e-4


def test_one_asynchronous_worker_is_the_same_as_single(run_one: Callable[..., Result]) -> None:
    alone = run_one(strategy="single", stop="steps=50")
    for engine in ENGINES:
        served = run_one(engine=engine, strategy="ps-async", layout="pw", stop="steps=50")
        assert difference(served, alone) < 1e-4
