"""Whether anything is slower than its base by more than is allowed: for continuous integration."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.baseline import Pair
from paceline.analyze.difference import Difference, ratio_words
from paceline.analyze.metrics import EXAMPLES, TO_TARGET, UPDATES, target_words


class GateResult(msgspec.Struct, frozen=True):
    """On one group against its base."""

    too_slow: bool
    why: str
    difference: Difference | None = None


def check_gate(pairs: Sequence[Pair], allowed: float) -> list[GateResult]:
    """`allowed` is a fraction: 0.05 lets a group be 5 % slower than its base.

    Too slow is a group whose median is slower by more than that and that is really slower. Where one repeat cannot
    tell what is real, the medians alone decide, since a gate that lets everything pass is none; the ruling says so.
    Time to the target decides if both reached the same one, else examples/s, else updates/s.
    """
    return [_rule(pair, allowed) for pair in pairs]


def _rule(pair: Pair, allowed: float) -> GateResult:
    if not pair.group.ok:
        return GateResult(True, f"{pair.name}: none of its runs can be used")
    target = pair.base.target
    if target and target in pair.group.wanted and pair.group.target != target:
        return GateResult(
            True, f"{pair.name}: not all of its runs reached {target_words(target)}; those of the base did"
        )
    found = (pair.difference(figure) for figure in (TO_TARGET, EXAMPLES, UPDATES))
    told = next((one for one in found if one), None)
    if told is None:
        return GateResult(True, f"{pair.name}: has no figure in common with {pair.base_name}")
    return _by(told, allowed)


def _by(told: Difference, allowed: float) -> GateResult:
    slowness = told.gain.inverse()
    too_slow = slowness.value > 1 + allowed and told.outcome in ("differs", "unknown")
    why = f"{told.name} against {told.base}: {told.phrase}"
    if told.outcome == "unclear" and slowness.value > 1 + allowed:
        why += f"; the median is {ratio_words(slowness)} as slow, which may be chance: more repeats would tell"
    return GateResult(too_slow, why, told)
