"""Times of different hosts are compared only beyond the uncertainty of their clocks."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from paceline.analyze.clocks import clock_uncertainty, is_last, waited_s
from paceline.report.run_data import RunData
from paceline.store.run import StoredRun
from report.stored import result_of, store_run

REMOTE: dict[str, Any] = {
    "hosts": "ssh:gpu1,gpu2", "trusted_network": True, "strategy": "allreduce", "layout": "w w", "steps": 100,
}  # fmt: skip


def arrivals(*rows: tuple[str, float]) -> pl.DataFrame:
    """One step, in which a worker of each host arrives at the barrier at this time."""
    return pl.DataFrame({"step": [0] * len(rows), "host": [row[0] for row in rows], "t_s": [row[1] for row in rows]})


def waits(uncertainty: dict[str, float], *rows: tuple[str, float]) -> list[float]:
    return arrivals(*rows).select(waited=waited_s(uncertainty))["waited"].to_list()


@pytest.mark.parametrize(("uncertainty", "waited"), [(0.0, 0.3), (0.1, 0.3), (0.149, 0.3), (0.151, 0.0), (5.0, 0.0)])
def test_a_wait_counts_only_if_it_is_longer_than_the_uncertainty_of_both_clocks(
    uncertainty: float, waited: float
) -> None:
    found = waits({"h1": uncertainty, "h2": uncertainty}, ("h1", 10.0), ("h2", 10.3))
    assert found == pytest.approx([waited, 0.0])


def test_workers_of_one_host_are_compared_exactly() -> None:
    assert waits({"h1": 5.0, "h2": 5.0}, ("h1", 10.0), ("h1", 10.2), ("h2", 10.3)) == pytest.approx([0.2, 0.0, 0.0])


def test_a_wait_for_any_host_with_a_known_clock_counts() -> None:
    # h3 may have been as early as h1, but h2 certainly came later than h1.
    found = waits({"h1": 0.01, "h2": 0.01, "h3": 9.0}, ("h1", 10.0), ("h2", 10.3), ("h3", 10.4))
    assert found == pytest.approx([0.4, 0.0, 0.0])


def test_the_last_worker_is_known_only_beyond_the_uncertainty() -> None:
    table = arrivals(("h1", 10.0), ("h2", 10.3))
    for uncertainty, last in ((0.1, [False, True]), (0.2, [False, False])):
        found = table.select(last=is_last(pl.col("t_s"), {"h1": uncertainty, "h2": uncertainty}))
        assert found["last"].to_list() == last
    same_host = arrivals(("h1", 10.0), ("h1", 10.3)).select(last=is_last(pl.col("t_s"), {"h1": 9.0}))
    assert same_host["last"].to_list() == [False, True]


@pytest.mark.parametrize(("uncertainty_us", "splits"), [(100, True), (200, False)])
def test_phases_of_a_stored_run_are_not_split_finer_than_its_clocks(
    tmp_path: Path, uncertainty_us: int, splits: bool
) -> None:
    """The times of h2 are 300 us late, which two clocks of +- 200 us cannot show."""
    paths = store_run(tmp_path, late_ns={"h2": 300_000}, clock_uncertainty_ns=uncertainty_us * 1000, **REMOTE)
    result = result_of(paths)
    waited = {worker.task: worker.phases["wait"] for worker in result.workers}
    assert waited == pytest.approx({"w0": 100 * 300e-6 if splits else 0.0, "w1": 0.0}, abs=1e-6)
    total = {worker.task: worker.phases["wait"] + worker.phases["push"] for worker in result.workers}
    assert total["w0"] == pytest.approx(total["w1"])
    assert [host.clock_uncertainty_us for host in result.hosts] == [uncertainty_us] * 2
    spans = RunData(result, paths).spans.filter(pl.col("kind") == "wait")
    assert spans["duration_s"].sum() == pytest.approx(sum(waited.values()), abs=1e-6)


def test_the_largest_uncertainty_of_a_run_counts(tmp_path: Path) -> None:
    later = {"event": "clock", "t_s": 2.5, "host": "h2", "clock_uncertainty_ns": 400_000, "jumped": False}
    paths = store_run(tmp_path, events=[later], clock_uncertainty_ns=100_000, **REMOTE)
    assert clock_uncertainty(StoredRun(paths)) == pytest.approx({"h1": 1e-4, "h2": 4e-4})


def test_hosts_on_one_machine_have_one_clock(tmp_path: Path) -> None:
    paths = store_run(tmp_path, steps=100, strategy="allreduce", layout="w w", clock_uncertainty_ns=100_000)
    assert clock_uncertainty(StoredRun(paths)) == {}
