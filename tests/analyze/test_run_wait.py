"""The time that tasks waited for a core is known in every window, whenever the agent read the counter."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analyze.bottleneck.collect_facts import _uses
from paceline.analyze.run_wait import spread_run_wait
from paceline.store.tables import SAMPLES_SCHEMA


def samples(counters: Mapping[str, Sequence[float | None]]) -> pl.DataFrame:
    """Samples of one host, ten per second, with these values of the counter of each task."""
    rows = []
    for number in range(len(next(iter(counters.values())))):
        tasks = [
            {"task": task, "cpu_s": 0.0, "rss_bytes": 1, "threads": 1, "run_wait_s": values[number]}
            for task, values in counters.items()
        ]
        rows.append({"host": "h1", "t_s": number / 10, "tasks": tasks})
    return pl.DataFrame(rows, schema_overrides={"tasks": SAMPLES_SCHEMA["tasks"]})


def read_every(period: int, first: int, rate: float, count: int) -> list[float | None]:
    """A counter that grows by `rate` per second and is read at the sample `first` and every `period` samples."""
    reads = [max(0, number - (number - first) % period) for number in range(count)]
    return [rate * number / 10 for number in reads]


def waited(table: pl.DataFrame) -> list[float | None]:
    return [task["run_wait_s"] for tasks in table["tasks"] for task in tasks]


@given(
    period=st.integers(1, 14),
    first=st.integers(0, 13),
    start=st.integers(14, 30),
    rate=st.sampled_from((0.0, 0.4, 3.0)),
)
def test_each_second_has_its_waiting_whatever_the_times_of_the_readings(
    period: int, first: int, start: int, rate: float
) -> None:
    table = samples({"w0": read_every(period, first, rate, 60)})
    use = _uses(spread_run_wait(table), start / 10, start / 10 + 1)["w0"]
    assert use.run_wait == pytest.approx(rate)


def test_without_spreading_a_second_between_two_readings_would_have_no_waiting() -> None:
    table = samples({"w0": read_every(11, 0, 0.9, 60)})
    assert _uses(table, 1.1, 2.1)["w0"].run_wait == 0.0
    assert _uses(spread_run_wait(table), 1.1, 2.1)["w0"].run_wait == pytest.approx(0.9)


def test_waiting_begins_at_most_a_gap_between_readings_before_it_is_seen() -> None:
    values = [0.0] * 50 + [1.0] * 10
    spread = waited(spread_run_wait(samples({"w0": values})))
    assert spread[:31] == [0.0] * 31
    assert spread[40] == pytest.approx(0.5)
    assert spread[50] == 1.0


def test_the_counter_of_a_restarted_task_begins_again() -> None:
    spread = waited(spread_run_wait(samples({"w0": [5.0] * 10 + [0.0] * 10 + [0.5] * 10})))
    assert spread[9] == 5.0
    assert spread[10] == 0.0
    assert all(value is not None and value >= 0 for value in spread)


def test_tasks_are_apart_and_other_columns_unchanged() -> None:
    table = samples({"w0": read_every(10, 0, 1.0, 40), "w1": [None] * 40})
    spread = spread_run_wait(table)
    assert spread.drop("tasks").equals(table.drop("tasks"))
    assert spread.schema == table.schema
    first: dict[str, Any]
    for first, second in spread["tasks"]:
        assert (first["task"], second["task"]) == ("w0", "w1")
        assert second["run_wait_s"] is None
    assert waited(spread)[30] == pytest.approx(1.5)


def test_runs_without_samples_of_tasks_stay_as_they_are() -> None:
    empty = pl.DataFrame(schema=SAMPLES_SCHEMA)
    assert spread_run_wait(empty).equals(empty)
