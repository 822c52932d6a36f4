from typing import Any

import polars as pl
import pytest

from paceline.analyze.critical_path import critical_path
from paceline.store.tables import STEPS_SCHEMA


def table(*rows: tuple[str, int, str, float, float]) -> pl.DataFrame:
    blank: dict[str, Any] = {"host": "h1", "update": 0, "loss": 0.0, "accuracy": 0.0, "staleness": -1}
    blank |= {"traced": False, "final": False}
    named = [dict(zip(("task", "step", "kind", "t_s", "duration_s"), row, strict=True)) for row in rows]
    return pl.DataFrame([{**blank, **row} for row in named], schema=STEPS_SCHEMA)


def step(
    task: str, number: int, *, data: float, compute: float, last_s: float
) -> list[tuple[str, int, str, float, float]]:
    """Of a synchronous worker: its input, its computing, and the wait until all are there."""
    start = number * 10.0
    arrived = start + data + compute
    return [
        (task, number, "data", start, data),
        (task, number, "compute", start + data, compute),
        (task, number, "wait", arrived, start + last_s - arrived),
        (task, number, "step", start, last_s),
    ]  # fmt: skip


def test_the_last_to_arrive_is_named_with_the_phase_that_kept_it() -> None:
    steps = table(
        *step("w0", 0, data=0.1, compute=1.0, last_s=3.1), *step("w1", 0, data=0.1, compute=3.0, last_s=3.1),
        *step("w0", 1, data=4.0, compute=1.0, last_s=5.0), *step("w1", 1, data=0.1, compute=1.0, last_s=5.0),
    )  # fmt: skip
    path = critical_path(steps, barrier_phase="wait")
    assert path["task"].to_list() == ["w1", "w0"]
    assert path["phase"].to_list() == ["compute", "data"]
    assert path["late_s"].to_list() == pytest.approx([2.0, 3.9])


def test_of_three_the_last_is_held_against_the_middle_of_the_others() -> None:
    steps = table(
        *(row for i, c in enumerate((1.0, 2.0, 6.0)) for row in step(f"w{i}", 0, data=0, compute=c, last_s=6))
    )
    (row,) = critical_path(steps, barrier_phase="wait").iter_rows(named=True)
    assert (row["task"], row["late_s"]) == ("w2", 4.5)


def test_in_an_all_reduce_one_has_arrived_when_its_push_begins() -> None:
    steps = table(
        ("w0", 0, "compute", 0, 1), ("w0", 0, "push", 1, 2), ("w0", 0, "step", 0, 3),
        ("w1", 0, "compute", 0, 2), ("w1", 0, "push", 2, 1), ("w1", 0, "step", 0, 3),
    )  # fmt: skip
    (row,) = critical_path(steps, barrier_phase="push").iter_rows(named=True)
    assert (row["task"], row["late_s"], row["phase"]) == ("w1", 1.0, "compute")


def test_a_step_that_someone_did_not_make_is_left_out() -> None:
    steps = table(*step("w0", 0, data=0, compute=1, last_s=2), *step("w1", 0, data=0, compute=2, last_s=2),
                  *step("w0", 1, data=0, compute=1, last_s=2))  # fmt: skip
    assert len(critical_path(steps, barrier_phase="wait")) == 1


def test_who_is_at_the_end_first_has_not_arrived_at_a_barrier() -> None:
    fused = [(task, 0, kind, 0, 1) for task in ("w0", "w1") for kind in ("fused", "step")]
    ends = [("w0", 1, "wait", 1.0, 0.5), ("w1", 1, "wait", 1.2, 0.3)]
    assert not len(critical_path(table(*fused, *ends), barrier_phase="wait"))


def test_one_worker_or_unknown_phases_have_no_critical_path() -> None:
    assert not len(critical_path(table(*step("w0", 0, data=0, compute=1, last_s=1)), barrier_phase="wait"))
    assert not len(critical_path(table(("w0", 0, "step", 0, 1), ("w1", 0, "step", 0, 1)), barrier_phase="wait"))


def test_where_workers_also_wait_for_their_task_the_last_wait_is_the_barrier() -> None:
    steps = table(
        *step("w0", 0, data=0, compute=1.0, last_s=3.0), *step("w1", 0, data=0, compute=3.0, last_s=3.0),
        ("w0", 0, "wait", -0.1, 0.1), ("w1", 0, "wait", -0.2, 0.2),
    )  # fmt: skip
    (row,) = critical_path(steps, barrier_phase="wait", last_wait=True).iter_rows(named=True)
    assert (row["task"], row["late_s"]) == ("w1", 2.0)
