"""Finds the baseline that each group is compared with."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import Metric
from paceline.analyze.repeats import Group, comparable_key, identity_except, overlap, sweep_of


class Pair(msgspec.Struct, frozen=True):
    """A group and its baseline."""

    group: Group
    base: Group
    name: str
    base_name: str

    def difference(self, metric: Metric) -> Difference | None:
        return difference(metric, self.group, self.base, self.name, self.base_name)


def pairs(groups: Sequence[Group], names: Sequence[str], base: Group | None = None) -> list[Pair]:
    """Each group with its baseline: `base` or the first group with usable runs, if workload and data are the same.

    A group of another workload or data set has the first group of its own as its baseline. Where several sweeps contain
    the same configurations, the baseline is the same configuration in the sweep of `base`: before and after a change.
    """
    chosen = base or next((group for group in groups if group.ok), None)
    if chosen is None:
        return []
    before_and_after = overlap([group.first for group in groups])
    found = []
    for group, name in zip(groups, names, strict=True):
        candidates = _same_configuration if before_and_after else _comparable
        own = next((candidate for candidate in candidates(group, groups, chosen) if candidate.ok), None)
        if own is not None and own is not group:
            found.append(Pair(group, own, name, _name_of(own, groups, names)))
    return found


def _same_configuration(group: Group, groups: Sequence[Group], base: Group) -> list[Group]:
    """In the sweep of `base`."""
    return [
        other
        for other in groups
        if sweep_of(other.first) == sweep_of(base.first) and identity_except(other) == identity_except(group)
    ]


def _comparable(group: Group, groups: Sequence[Group], base: Group) -> list[Group]:
    """Groups of the same workload and data, `base` first if it is one of them."""
    return [other for other in (base, *groups) if comparable_key(other) == comparable_key(group)]


def _name_of(group: Group, groups: Sequence[Group], names: Sequence[str]) -> str:
    return next(name for other, name in zip(groups, names, strict=True) if other is group)
