"""What more workers bring: speed-up and efficiency against the fewest workers of an otherwise equal configuration."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import EXAMPLES, TO_TARGET, UPDATES, Metric
from paceline.analyze.repeats import Group, identity_except, names, overlap, sweep_of

Kind = Literal["weak", "strong"]
Named = tuple[Group, str]
"""A group and what it is called."""


class ScalePoint(msgspec.Struct, frozen=True):
    """One number of workers."""

    group: Group
    name: str
    workers: int
    times_workers: float
    """As many times the workers as the base has."""
    pace: Difference | None
    """In examples/s, or updates/s where there are no examples."""
    to_target: Difference | None

    def efficiency(self, gain: Difference) -> float:
        """Of what as many times the workers would bring at best; 1 is perfect."""
        return gain.gain.value / self.times_workers


class Scaling(msgspec.Struct, frozen=True):
    """weak: a worker's batch stays the same, so all together take more; strong: what all together take stays."""

    kind: Kind
    base: Group
    base_name: str
    figure: Metric
    points: tuple[ScalePoint, ...]
    """In the order of workers, without the base."""


def scalings(groups: Sequence[Group], called: Sequence[str] | None = None) -> list[Scaling]:
    """One for each set of groups that differ only in their workers; `called` are the groups' names."""
    kept = [(group, name) for group, name in zip(groups, called or names(groups), strict=True) if group.ok]
    kinds: tuple[Kind, ...] = ("weak", "strong")
    # Without examples there is no load that could be kept the same for all together.
    return [
        _scaling(family, kind)
        for kind in kinds
        for family in _families(kept, kind)
        if len({group.workers for group, _ in family}) > 1 and (kind == "weak" or family[0][0].first.batch)
    ]


def _families(named: list[Named], kind: Kind) -> list[list[Named]]:
    by_sweep = overlap([group.first for group, _ in named])
    families: dict[tuple[str, ...], list[Named]] = {}
    alone: dict[tuple[str, ...], Named] = {}
    for group, name in named:
        rest = _load(group, kind, by_sweep)
        if group.first.single_worker:
            alone[rest] = (group, name)
        else:
            families.setdefault((group.first.strategy, *rest), []).append((group, name))
    for (_, *key), family in families.items():
        # One worker without anybody to talk to is the base of a strategy that was not tried with one.
        if tuple(key) in alone and min(group.workers for group, _ in family) > 1:
            family.insert(0, alone[tuple(key)])
    return [sorted(family, key=lambda member: member[0].workers) for family in families.values()]


def _load(group: Group, kind: Kind, by_sweep: bool) -> tuple[str, ...]:
    """What must be equal beside the strategy."""
    sweep = sweep_of(group.first) if by_sweep else ""
    if kind == "weak":
        return (sweep, *identity_except(group, "layout", "strategy"))
    return (sweep, str(group.first.batch * group.workers), *identity_except(group, "layout", "strategy", "batch"))


def _scaling(family: list[Named], kind: Kind) -> Scaling:
    (base, base_name), *others = family
    figure = EXAMPLES if base.first.batch else UPDATES
    points = [
        ScalePoint(
            group=group,
            name=name,
            workers=group.workers,
            times_workers=group.workers / base.workers,
            pace=difference(figure, group, base, name, base_name),
            to_target=difference(TO_TARGET, group, base, name, base_name),
        )
        for group, name in others
    ]
    return Scaling(kind, base, base_name, figure, tuple(points))
