"""Which links are measured, and which of them at the same time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.control.link_schedule import MOST_HOSTS_WITH_ALL_PAIRS, Pair, measured_pairs, rounds_of, transfer_s


def names(count: int) -> list[str]:
    return [f"h{number}" for number in range(1, count + 1)]


@given(st.integers(2, MOST_HOSTS_WITH_ALL_PAIRS))
def test_every_ordered_pair_of_a_few_hosts_is_measured_once_in_the_fewest_rounds(count: int) -> None:
    rounds = rounds_of(measured_pairs(names(count)))
    measured = [pair for one in rounds for pair in one]
    assert sorted(measured) == sorted(Pair(a, b) for a in names(count) for b in names(count) if a != b)
    assert len(rounds) == 2 * (count - 1 + count % 2)


@given(st.integers(MOST_HOSTS_WITH_ALL_PAIRS + 1, 64))
def test_ring_of_many_hosts_takes_two_or_three_rounds(count: int) -> None:
    rounds = rounds_of(measured_pairs(names(count)))
    measured = [pair for one in rounds for pair in one]
    assert sorted(pair.sender for pair in measured) == sorted(names(count))
    assert sorted(pair.receiver for pair in measured) == sorted(names(count))
    assert len(rounds) == 2 + count % 2


_HOSTS = st.sampled_from(names(9))
_PAIRS = st.lists(st.builds(Pair, _HOSTS, _HOSTS).filter(lambda pair: pair.sender != pair.receiver), unique=True)


@given(_PAIRS)
def test_no_host_is_in_two_links_of_a_round(pairs: list[Pair]) -> None:
    rounds = rounds_of(pairs)
    assert sorted(pair for one in rounds for pair in one) == sorted(pairs)
    for one in rounds:
        used = [host for pair in one for host in pair]
        assert len(used) == len(set(used))


def test_pairs_of_hosts_on_one_machine_are_measured_one_after_the_other() -> None:
    pairs = measured_pairs(names(4))
    assert rounds_of(pairs, one_machine=True) == [[pair] for pair in pairs]


@pytest.mark.parametrize(("hosts", "seconds"), [(2, 1.0), (3, 3.0), (8, 4.0)])
def test_all_transfers_together_take_a_bounded_time(hosts: int, seconds: float) -> None:
    rounds = rounds_of(measured_pairs(names(hosts)))
    assert len(rounds) * transfer_s(len(rounds), rtt_s=0.0) == pytest.approx(seconds)


def test_transfer_over_a_long_distance_takes_longer_but_not_without_limit() -> None:
    assert transfer_s(14, rtt_s=0.001) < transfer_s(14, rtt_s=0.1) < transfer_s(14, rtt_s=10.0) == 2.0
