from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analyze import timeline
from paceline.messages import HostSample, LinkCount
from paceline.store.tables import STEPS_SCHEMA, sample_rows


def samples(host: str = "h1", count: int = 11) -> pl.DataFrame:
    """Half a core, 10 MB/s out, ten samples a second."""
    taken = [
        HostSample(i * 10**8, 0.05 * i, [], 5_000_000, LinkCount(tx_bytes=i * 10**6), LinkCount(), 0, 0, [])
        for i in range(count)
    ]
    return sample_rows(host, taken, ())


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    blank = {"task": "w0", "host": "h1", "kind": "step", "step": 0, "update": 0, "t_s": 0.0, "duration_s": 0.0}
    blank |= {"loss": 0.0, "accuracy": 0.0, "staleness": -1, "traced": False, "final": False}
    return pl.DataFrame([{**blank, **row} for row in rows], schema=STEPS_SCHEMA)


def even_steps(count: int, task: str = "w0", seconds: float = 0.1) -> list[dict[str, Any]]:
    return [{"task": task, "step": i, "t_s": i * seconds, "duration_s": seconds} for i in range(count)]


def test_rates_are_between_two_samples_of_one_host() -> None:
    rates = timeline.host_rates(pl.concat([samples("h1"), samples("h2", 3)]))
    assert rates.group_by("host").len().sort("host").rows() == [("h1", 10), ("h2", 2)]
    assert rates["cpu_cores"].to_list() == pytest.approx([0.5] * 12)
    assert rates["external_tx_mb_s"].to_list() == pytest.approx([10.0] * 12)
    assert rates["external_rx_mb_s"].to_list() == [0.0] * 12
    assert rates["memory_mb"].to_list() == [5.0] * 12


def test_no_samples_are_no_rates() -> None:
    assert timeline.host_rates(sample_rows("h1", [], ())).is_empty()


def test_a_step_shorter_than_a_sample_has_its_part_of_it() -> None:
    used = timeline.use_per_step(samples(), table({"t_s": 0.42, "duration_s": 0.01}, {"t_s": 0.1, "duration_s": 0.5}))
    assert used["cpu_cores"].to_list() == pytest.approx([0.5, 0.5])
    assert used["external_tx_mb_s"].to_list() == pytest.approx([10.0, 10.0])


def test_steps_on_a_host_without_samples_are_left_out() -> None:
    assert timeline.use_per_step(samples(), table({"host": "h9"})).is_empty()


def test_bins_hold_mean_and_extremes() -> None:
    values = pl.DataFrame({"host": ["h1"] * 4, "t_s": [0.0, 1.0, 2.0, 3.0], "x": [1.0, 3.0, 10.0, 20.0]})
    found = timeline.binned(values, ["x"], by="host", bins=2)
    assert found.select("x", "x_min", "x_max").rows() == [(2.0, 1.0, 3.0), (15.0, 10.0, 20.0)]


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=400), st.integers(6, 50))
def test_thinning_keeps_the_extremes_the_ends_and_the_order(values: list[float], points: int) -> None:
    array = np.array(values)
    kept = timeline.downsampled(array, points)
    assert len(kept) <= max(points, 4)
    assert kept[0] == 0
    assert kept[-1] == len(values) - 1
    assert (np.diff(kept) > 0).all()
    if not np.isnan(array).all():
        assert np.nanmax(array[kept]) == np.nanmax(array)
        assert np.nanmin(array[kept]) == np.nanmin(array)


def test_pace_counts_steps_where_they_end() -> None:
    found = timeline.steps_per_second(table(*even_steps(20), *even_steps(10, "w1", 0.2)), start_s=0.0, bins=2)
    assert found.group_by("task").agg(pl.col("steps_per_s").mean()).sort("task").rows() == [
        ("w0", pytest.approx(10)),
        ("w1", pytest.approx(5)),
    ]


def test_in_an_all_reduce_a_push_begins_with_the_wait_for_the_last() -> None:
    pushes = table(
        {"task": "w0", "kind": "push", "t_s": 10.0, "duration_s": 3.0},
        {"task": "w1", "kind": "push", "t_s": 12.0, "duration_s": 1.0},
    )
    spans = timeline.phase_spans(pushes, mixed_phase="push").filter(pl.col("task") == "w0").sort("t_s")
    assert spans.select("kind", "t_s", "duration_s").rows() == [("wait", 10.0, 2.0), ("push", 12.0, 1.0)]


def test_shares_of_a_stretch_add_up() -> None:
    spans = timeline.phase_spans(
        table(
            *[{"kind": "pull", "t_s": float(i), "duration_s": 0.25, "step": i} for i in range(8)],
            *[{"kind": "compute", "t_s": i + 0.25, "duration_s": 0.75, "step": i} for i in range(8)],
        ),
        mixed_phase=None,
    )
    shares = timeline.phase_shares(spans, bins=4)
    assert shares.group_by("t_s").agg(pl.col("share").sum())["share"].to_list() == pytest.approx([1.0] * 4)
    assert shares.filter(pl.col("kind") == "pull")["share"].to_list() == pytest.approx([0.25] * 4)


def test_windows_are_the_first_the_slowest_an_even_choice_and_the_last() -> None:
    rows = even_steps(200)
    rows[120]["duration_s"] = 5.0
    found = timeline.windows(table(*rows), steps_each=10)
    assert [window.name for window in found] == [
        "first steps", "slowest (w0, step 120)", "at 25 %", "at 50 %", "at 75 %", "last steps",
    ]  # fmt: skip
    slowest = found[1]
    assert slowest.start_s < 12.0 < slowest.end_s
    assert found[0].start_s == 0.0
    assert found[-1].end_s == pytest.approx(20.0)


def test_a_short_run_is_one_window_and_none_without_steps() -> None:
    assert [window.name for window in timeline.windows(table(*even_steps(4)), steps_each=10)] == ["first steps"]
    assert timeline.windows(table().clear(), steps_each=10) == []
