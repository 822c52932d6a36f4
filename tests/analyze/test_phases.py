from typing import Any

import polars as pl
import pytest

from paceline.analyze.phases import phases_by_worker, staleness_by_worker
from paceline.store.tables import STEPS_SCHEMA


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    blank = {"task": "w0", "host": "h1", "step": 0, "update": 0, "t_s": 0.0, "duration_s": 0.0, "loss": 0.0}
    blank |= {"accuracy": 0.0, "staleness": -1, "traced": False, "final": False}
    return pl.DataFrame([{**blank, **row} for row in rows], schema=STEPS_SCHEMA)


def test_phases_are_summed_by_worker() -> None:
    found = phases_by_worker(
        table(
            {"kind": "compute", "duration_s": 1.0},
            {"kind": "step"},
            {"kind": "compute", "duration_s": 2.0, "step": 1},
            {"kind": "step", "step": 1},
            {"kind": "compute", "duration_s": 5.0, "task": "w1"},
            {"kind": "step", "task": "w1"},
        ),
        mixed_phase=None,
    )
    assert found == {"w0": {"compute": 3.0}, "w1": {"compute": 5.0}}


def test_what_comes_after_the_last_step_is_no_training() -> None:
    found = phases_by_worker(
        table(
            {"kind": "compute", "duration_s": 1.0},
            {"kind": "step"},
            {"kind": "compute", "duration_s": 9.0, "step": 1},
            {"kind": "wait", "duration_s": 9.0, "step": 1},
            {"kind": "eval", "duration_s": 2.0, "step": 1},
            {"kind": "eval", "duration_s": 9.0, "step": 1, "final": True},
        ),
        mixed_phase=None,
    )
    assert found == {"w0": {"compute": 1.0, "eval": 2.0}}


def test_in_an_all_reduce_the_early_ones_wait_for_the_last() -> None:
    found = phases_by_worker(
        table(
            {"task": "w0", "kind": "push", "t_s": 10.0, "duration_s": 3.0},
            {"task": "w0", "kind": "step"},
            {"task": "w1", "kind": "push", "t_s": 12.0, "duration_s": 1.0},
            {"task": "w1", "kind": "step"},
        ),
        mixed_phase="push",
    )
    assert found["w0"] == {"push": 1.0, "wait": 2.0}
    assert found["w1"] == {"push": 1.0, "wait": 0.0}


def test_fused_time_is_divided_as_the_traced_steps_were() -> None:
    found = phases_by_worker(
        table(
            {"kind": "fused", "duration_s": 8.0},
            {"kind": "step"},
            {"kind": "pull", "duration_s": 1.0, "step": 1, "traced": True},
            {"kind": "compute", "duration_s": 2.0, "step": 1, "traced": True},
            {"kind": "push", "duration_s": 1.0, "step": 1, "traced": True},
            {"kind": "step", "step": 1, "traced": True},
        ),
        mixed_phase=None,
    )
    assert found["w0"] == pytest.approx({"pull": 2.0, "compute": 4.0, "push": 2.0})


def test_fused_time_without_any_trace_is_not_divided() -> None:
    found = phases_by_worker(table({"kind": "fused", "duration_s": 8.0}, {"kind": "step"}), mixed_phase=None)
    assert found["w0"] == {"fused": 8.0}


def test_staleness_is_over_the_steps_that_have_one() -> None:
    rows = [{"kind": "step", "step": number, "staleness": number % 3} for number in range(9)]
    found = staleness_by_worker(table(*rows, {"kind": "step", "task": "w1"}))
    assert found.keys() == {"w0"}
    assert (found["w0"].mean, found["w0"].max) == (1.0, 2)
