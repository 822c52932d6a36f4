"""Clocks of hosts are measured again during a run, and times between two measurements are interpolated."""

from typing import Any

import numpy as np
import pytest

from paceline.control.clocks import HostClocks
from paceline.control.cluster import Clock
from paceline.messages import HostSample, LinkCount
from paceline.store.journal import ClockOffset
from paceline.store.tables import sample_rows

SECOND = 10**9


class FakeCluster:
    """Returns the clocks that a test gives it."""

    def __init__(self, *clocks: Clock | None) -> None:
        self._clocks = list(clocks)

    def measure_clock(self, _host: str) -> Clock | None:
        return self._clocks.pop(0)

    take_clock = measure_clock


class FakeWriter:
    clock_zero_ns = 100 * SECOND

    def __init__(self) -> None:
        self.entries: list[ClockOffset] = []
        self.events: list[dict[str, Any]] = []

    def event(self, _name: str, **fields: Any) -> None:
        self.events.append(fields)

    def add(self, entry: ClockOffset) -> None:
        self.entries.append(entry)


def clocks(*measured: Clock | None, one_clock: bool = False) -> tuple[HostClocks, FakeWriter]:
    writer = FakeWriter()
    made: Any = HostClocks(FakeCluster(*measured), writer, one_clock=one_clock)  # type: ignore[arg-type]
    return made, writer


def test_offset_of_a_ping_is_exact_if_both_ways_take_the_same_time() -> None:
    clock = Clock.of_ping(sent_ns=1_000, answered_ns=501_500, received_ns=2_000)
    assert (clock.offset_ns, clock.uncertainty_ns) == (-500_000, 500)


def test_every_measurement_is_stored_but_an_imprecise_one_is_ignored() -> None:
    first, drifted, noisy = Clock(0, 100, 0), Clock(5_000, 150, 30 * SECOND), Clock(90_000, 10**7, 60 * SECOND)
    host_clocks, writer = clocks(first, drifted, noisy, None)
    host_clocks.measure("h1")
    host_clocks.measure_again(10.0)
    assert len(writer.entries) == 1
    for now_s in (31.0, 62.0, 93.0):
        host_clocks.measure_again(now_s)
    assert [(entry.offset_ns + 100 * SECOND, entry.host_ns) for entry in writer.entries] == [
        (0, 0),
        (5_000, 30 * SECOND),
    ]


def test_a_time_is_converted_by_the_measurement_before_it() -> None:
    host_clocks, _ = clocks(Clock(100 * SECOND, 10, 0), Clock(101 * SECOND, 10, 50 * SECOND))
    host_clocks.measure("h1")
    host_clocks.measure_again(31.0)
    assert host_clocks.run_time_s("h1", 40 * SECOND) == pytest.approx(40)
    assert host_clocks.run_time_s("h1", 60 * SECOND) == pytest.approx(61)


def test_times_of_a_drifting_clock_are_interpolated_in_the_tables() -> None:
    # The host's clock loses 50 ms in 1,000 s (50 ppm), and was measured three times.
    offset = -7 * 10**18
    measured = [
        ClockOffset("h1", offset + drift, 1_000, 7 * 10**18 + at * SECOND)
        for at, drift in ((0, 0), (500, 25_000_000), (1_000, 50_000_000))
    ]
    times_s = [0, 250, 750, 1_000, 1_100]
    samples = [HostSample(7 * 10**18 + at * SECOND, 0.0, [], 0, LinkCount(), LinkCount(), 0, 0, []) for at in times_s]
    table = sample_rows("h1", samples, measured)
    expected = [0, 250.0125, 750.0375, 1_000.05, 1_100.05]
    np.testing.assert_allclose(table["t_s"].to_numpy(), expected, atol=1e-6)


def test_a_measurement_counts_if_the_clock_may_have_drifted_by_more_than_its_uncertainty() -> None:
    # In 30 s a clock may drift by 1.5 ms, so an uncertainty of 1 ms is an improvement.
    host_clocks, writer = clocks(Clock(0, 100, 0), Clock(200_000, 1_000_000, 30 * SECOND))
    host_clocks.measure("h1")
    host_clocks.measure_now()
    assert len(writer.entries) == 2
    assert writer.events == [{"host": "h1", "clock_uncertainty_ns": 1_000_000, "jumped": False}]


def test_a_clock_that_jumped_is_as_uncertain_as_the_jump() -> None:
    host_clocks, writer = clocks(Clock(0, 100, 0), Clock(-3 * SECOND, 100, 30 * SECOND))
    host_clocks.measure("h1")
    host_clocks.measure_now()
    assert writer.events == [{"host": "h1", "clock_uncertainty_ns": 3 * SECOND, "jumped": True}]


def test_hosts_on_the_controllers_machine_have_its_clock() -> None:
    host_clocks, writer = clocks(Clock(7_000, 9_000, 5 * SECOND, 18_000), one_clock=True)
    assert host_clocks.measure("h1") == Clock(0, 0, 5 * SECOND, 18_000)
    host_clocks.measure_now()
    assert [(entry.offset_ns, entry.uncertainty_ns) for entry in writer.entries] == [(-100 * SECOND, 0)]
