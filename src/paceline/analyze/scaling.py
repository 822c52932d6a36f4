"""Speed-up and efficiency of more workers, compared with the fewest workers of an otherwise equal configuration."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import EXAMPLES, TO_TARGET, UPDATES, Metric
from paceline.analyze.repeats import Group, group_names, identity_except, overlap, sweep_of

Kind = Literal["weak", "strong"]
Named = tuple[Group, str]
"""A group and its name."""


class ScalePoint(msgspec.Struct, frozen=True):
    """A group with more workers than the baseline."""

    group: Group
    name: str
    workers: int
    times_workers: float
    """Number of workers relative to the baseline."""
    throughput: Difference | None
    """In examples/s, or in updates/s for a workload without examples."""
    to_target: Difference | None
    """In time to the target."""

    def efficiency(self, gain: Difference) -> float:
        """Speed-up divided by the ratio of workers; 1 is ideal."""
        return gain.gain.value / self.times_workers


class Scaling(msgspec.Struct, frozen=True):
    """weak: the batch per worker is constant; strong: the total batch of all workers is constant."""

    kind: Kind
    base: Group
    base_name: str
    metric: Metric
    """Of the throughput."""
    points: tuple[ScalePoint, ...]
    """By number of workers, without the baseline."""


def scalings(groups: Sequence[Group], names: Sequence[str] | None = None) -> list[Scaling]:
    """One for each set of groups that differ only in the number of workers."""
    kept = [(group, name) for group, name in zip(groups, names or group_names(groups), strict=True) if group.ok]
    kinds: tuple[Kind, ...] = ("weak", "strong")
    # Without a batch there is no total batch that could be kept constant.
    return [
        _scaling(family, kind)
        for kind in kinds
        for family in _families(kept, kind)
        if len({group.workers for group, _ in family}) > 1 and (kind == "weak" or family[0][0].first.batch)
    ]


def _families(named: list[Named], kind: Kind) -> list[list[Named]]:
    keep_sweeps_apart = overlap([group.first for group, _ in named])
    families: dict[tuple[str, ...], list[Named]] = {}
    alone: dict[tuple[str, ...], Named] = {}
    for group, name in named:
        rest = _load(group, kind, keep_sweeps_apart)
        if group.first.single_worker:
            alone[rest] = (group, name)
        else:
            families.setdefault((group.first.strategy, *rest), []).append((group, name))
    for (_, *key), family in families.items():
        # A strategy that was not run with one worker has the single-worker strategy as its baseline.
        if tuple(key) in alone and min(group.workers for group, _ in family) > 1:
            family.insert(0, alone[tuple(key)])
    return [sorted(family, key=lambda member: member[0].workers) for family in families.values()]


def _load(group: Group, kind: Kind, keep_sweeps_apart: bool) -> tuple[str, ...]:
    """What must be equal, apart from the strategy, for groups to be on one scaling curve."""
    sweep = sweep_of(group.first) if keep_sweeps_apart else ()
    if kind == "weak":
        return (*sweep, *identity_except(group, "layout", "strategy"))
    return (*sweep, str(group.first.batch * group.workers), *identity_except(group, "layout", "strategy", "batch"))


def _scaling(family: list[Named], kind: Kind) -> Scaling:
    (base, base_name), *others = family
    metric = EXAMPLES if base.first.batch else UPDATES
    points = [
        ScalePoint(
            group=group,
            name=name,
            workers=group.workers,
            times_workers=group.workers / base.workers,
            throughput=difference(metric, group, base, name, base_name),
            to_target=difference(TO_TARGET, group, base, name, base_name),
        )
        for group, name in others
    ]
    return Scaling(kind, base, base_name, metric, tuple(points))
