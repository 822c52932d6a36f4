"""Decides whether a configuration is slower than its baseline by more than is allowed, for continuous integration."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.baseline import Pair
from paceline.analyze.difference import Difference, ratio_text
from paceline.analyze.metrics import EXAMPLES, TO_TARGET, UPDATES
from paceline.present import labels


class GateResult(msgspec.Struct, frozen=True):
    """Of one group compared with its baseline."""

    too_slow: bool
    why: str
    difference: Difference | None = None


def check_gate(pairs: Sequence[Pair], allowed: float) -> list[GateResult]:
    """`allowed` is a fraction: 0.05 accepts a group that is up to 5 % slower than its baseline.

    A group is too slow if its median is slower by more than that and the difference is significant. With one repeat
    there is no significance, so the medians alone decide and the reason says so: a gate that lets everything pass
    would be useless. Time to the target decides if both reached the same one, else examples/s, else updates/s.
    """
    return [_check(pair, allowed) for pair in pairs]


def _check(pair: Pair, allowed: float) -> GateResult:
    if not pair.group.ok:
        return GateResult(True, f"{pair.name}: no usable run")
    target = pair.base.target
    if target and target in pair.group.requested_targets and pair.group.target != target:
        why = f"{pair.name}: not all of its runs reached {labels.target(target)}; all runs of the baseline did"
        return GateResult(True, why)
    differences = (pair.difference(metric) for metric in (TO_TARGET, EXAMPLES, UPDATES))
    difference = next((found for found in differences if found), None)
    if difference is None:
        return GateResult(True, f"{pair.name}: no metric in common with {pair.base_name}")
    return _check_difference(difference, allowed)


def _check_difference(difference: Difference, allowed: float) -> GateResult:
    slowdown = difference.gain.inverse()
    exceeded = slowdown.value > 1 + allowed
    why = f"{difference.name} compared with {difference.base}: {difference.phrase}"
    if difference.outcome == "unclear" and exceeded:
        why += f"; the median is {ratio_text(slowdown)} slower, which is not significant: run more repeats"
    return GateResult(exceeded and difference.outcome in ("differs", "unknown"), why, difference)
