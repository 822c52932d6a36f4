from pathlib import Path
from typing import Any

import polars as pl
import pytest

from paceline.analyze.curves import curves_of, learning_curves, staleness_histogram
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.tables import STEPS_SCHEMA
from support.live_run import RunOne


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    blank = {"task": "w0", "host": "h1", "kind": "step", "step": 0, "update": 0, "t_s": 0.0, "duration_s": 0.0}
    blank |= {"loss": 0.0, "accuracy": float("nan"), "staleness": -1, "traced": False, "final": False}
    return pl.DataFrame([{**blank, **row} for row in rows], schema=STEPS_SCHEMA)


def test_a_step_counts_when_it_ends_with_the_examples_of_all_updates_so_far() -> None:
    found = curves_of(
        table(
            {"task": "w1", "update": 2, "t_s": 10.5, "duration_s": 1.0, "loss": 0.5},
            {"task": "w0", "update": 1, "t_s": 10.0, "duration_s": 1.0, "loss": 0.75},
            {"kind": "compute", "t_s": 10.0},
            {"kind": "eval", "update": 2, "t_s": 12.0, "duration_s": 0.5, "loss": 0.25, "accuracy": 0.5},
        ).lazy(),
        start_s=10.0,
        examples_per_update=200,
    )
    assert found.collect().rows() == [
        ("step", "w0", 1, 200, 1.0, 0.75, None),
        ("step", "w1", 2, 400, 1.5, 0.5, None),
        ("eval", "w0", 2, 400, 2.5, 0.25, 0.5),
    ]


def test_staleness_is_counted_by_worker() -> None:
    stale = [("w0", 1), ("w0", 1), ("w0", 0), ("w1", 3), ("w1", -1)]
    steps = table(*[{"task": task, "staleness": staleness} for task, staleness in stale])
    assert staleness_histogram(steps.lazy()).collect().rows() == [("w0", 0, 1), ("w0", 1, 2), ("w1", 3, 1)]
    assert staleness_histogram(table({}).lazy()).collect().is_empty()


def test_the_curve_of_a_run_meets_its_target_where_the_result_says(run_one: RunOne) -> None:
    result = run_one(strategy="ps-async", layout="pw w", stop="loss=1.0", eval_every=20)
    run = StoredRun(RunPaths(Path(result.dir)))
    curves = learning_curves(run, result)
    assert result.reached is not None
    met = curves.filter((pl.col("kind") == "eval") & (pl.col("loss") <= 1.0)).row(0, named=True)
    assert met["update"] == result.reached.at_update
    assert met["seconds"] == pytest.approx(result.reached.at_s, abs=0.01)
    steps = curves.filter(pl.col("kind") == "step")
    assert (len(steps), steps["examples"].max()) == (result.updates, result.examples)
    assert set(steps["task"]) == {"w0", "w1"}
    assert staleness_histogram(run.scan_steps()).collect()["steps"].sum() == result.updates
