"""Which links between hosts are measured, in which order and for how long. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

MOST_HOSTS_WITH_ALL_PAIRS = 8
"""With more hosts, only the links of a ring are measured: the number of pairs grows with the square of the hosts."""
_TOTAL_S = 4.0
"""Time for all transfers together, within the limits of one transfer."""
_SHORTEST_S, _LONGEST_S = 0.25, 0.5
_ROUND_TRIPS_PER_TRANSFER = 12
"""TCP doubles its rate with each round trip, so that a transfer over a long distance takes longer to reach its rate."""
_LONGEST_OVER_DISTANCE_S = 2.0


class Pair(NamedTuple):
    """A link in one direction."""

    sender: str
    receiver: str


def measured_pairs(hosts: Sequence[str]) -> list[Pair]:
    """All ordered pairs of a few hosts; the links of a ring of many hosts."""
    if len(hosts) > MOST_HOSTS_WITH_ALL_PAIRS:
        return [Pair(host, hosts[(number + 1) % len(hosts)]) for number, host in enumerate(hosts)]
    pairs = []
    for matching in _matchings(hosts):
        pairs += [Pair(one, other) for one, other in matching]
        pairs += [Pair(other, one) for one, other in matching]
    return pairs


def rounds_of(pairs: Sequence[Pair], *, one_machine: bool = False) -> list[list[Pair]]:
    """The pairs in rounds: links of one round share no host, so they can be measured at the same time.

    Hosts on one machine share its cores, which a transfer needs more than the link between them: one pair per round.
    """
    if one_machine:
        return [[pair] for pair in pairs]
    rounds: list[list[Pair]] = []
    for pair in pairs:
        free = (one for one in rounds if not any({*pair} & {*other} for other in one))
        chosen = next(free, None)
        if chosen is None:
            rounds.append([pair])
        else:
            chosen.append(pair)
    return rounds


def transfer_s(rounds: int, rtt_s: float) -> float:
    """For how long to send in each of these rounds, over links with this round-trip time."""
    seconds = min(_LONGEST_S, max(_SHORTEST_S, _TOTAL_S / max(1, rounds)))
    return max(seconds, min(_LONGEST_OVER_DISTANCE_S, _ROUND_TRIPS_PER_TRANSFER * rtt_s))


def _matchings(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Every unordered pair once, in as few groups without a common host as possible, as in a round-robin tournament.

    One host stays at its place, and the others move on by one place in a circle after each round; in a round, hosts at
    opposite places are a pair. With an odd number of hosts, one of them pauses in each round.
    """
    circle: list[str | None] = [*hosts] if len(hosts) % 2 == 0 else [*hosts, None]
    matchings = []
    for _ in range(len(circle) - 1):
        opposite = zip(circle[: len(circle) // 2], reversed(circle), strict=False)
        matchings.append([(a, b) for a, b in opposite if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return matchings
