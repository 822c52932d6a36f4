"""What each group is held against."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import Metric
from paceline.analyze.repeats import Group, comparable_key, identity_except, overlap, sweep_of


class Pair(msgspec.Struct, frozen=True):
    """A group and its base."""

    group: Group
    base: Group
    name: str
    base_name: str

    def difference(self, figure: Metric) -> Difference | None:
        return difference(figure, self.group, self.base, self.name, self.base_name)


def pairs(groups: Sequence[Group], called: Sequence[str], base: Group | None = None) -> list[Pair]:
    """Every other group against `base`, or the first that has usable runs, or the first of its own workload and data.

    Where sweeps hold the same configurations, each is held against itself in the base's sweep: before and after.
    """
    chosen = base or next((group for group in groups if group.ok), None)
    if chosen is None:
        return []
    before_and_after = overlap([group.first for group in groups])
    found = []
    for group, name in zip(groups, called, strict=True):
        fitting = _itself(group, groups, chosen) if before_and_after else _of_its_contest(group, groups, chosen)
        own = next((one for one in fitting if one.ok), None)
        if own is not None and own is not group:
            found.append(Pair(group, own, name, _name_of(own, groups, called)))
    return found


def _itself(group: Group, groups: Sequence[Group], base: Group) -> list[Group]:
    return [
        one
        for one in groups
        if sweep_of(one.first) == sweep_of(base.first) and identity_except(one) == identity_except(group)
    ]


def _of_its_contest(group: Group, groups: Sequence[Group], base: Group) -> list[Group]:
    """The base first, if it can be held against the group at all."""
    return [one for one in (base, *groups) if comparable_key(one) == comparable_key(group)]


def _name_of(group: Group, groups: Sequence[Group], called: Sequence[str]) -> str:
    return next(name for one, name in zip(groups, called, strict=True) if one is group)
