"""Counters of network interfaces that appear and disappear."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.agent.counters import InterfaceTotals
from paceline.messages import LinkCount


def test_traffic_of_an_interface_that_is_removed_stays_in_the_sum() -> None:
    totals = InterfaceTotals()
    totals.update([("lo", (1, 1, 1, 1)), ("eth0", (100, 50, 4, 2)), ("veth1", (900, 900, 9, 9))])
    totals.update([("lo", (2, 2, 2, 2)), ("eth0", (110, 60, 5, 3)), ("veth1", (1000, 1000, 10, 10))])
    counts = totals.update([("lo", (3, 3, 3, 3)), ("eth0", (120, 70, 6, 4))])
    assert counts.external == LinkCount(1120, 1070, 16, 14)
    assert counts.loopback == LinkCount(3, 3, 3, 3)


def test_an_interface_that_is_added_counts_from_then_on() -> None:
    totals = InterfaceTotals()
    totals.update([("eth0", (100, 100, 1, 1))])
    assert totals.update([("eth0", (100, 100, 1, 1)), ("veth1", (5000, 5000, 5, 5))]).external.rx_bytes == 100
    assert totals.update([("eth0", (100, 100, 1, 1)), ("veth1", (5007, 5000, 5, 5))]).external.rx_bytes == 107


READINGS = st.lists(
    st.dictionaries(st.sampled_from(["lo", "eth0", "veth1", "veth2"]), st.tuples(*[st.integers(0, 1000)] * 4)),
    max_size=8,
)


@given(READINGS)
def test_sums_never_fall(readings: list[dict[str, tuple[int, ...]]]) -> None:
    totals, before = InterfaceTotals(), 0
    for reading in readings:
        now = totals.update(reading.items()).external.rx_bytes
        assert now >= before
        before = now
