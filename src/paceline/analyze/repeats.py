"""Runs that are repeats of one another: their figures as a middle and a spread, and what sets groups of them apart."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import msgspec

from paceline.spec.experiment import DEFAULTS
from paceline.store.result import Result

Of = Callable[[Result], float | None]
"""Reads one figure of a run."""


class Spread(msgspec.Struct, frozen=True):
    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))

    @property
    def reach(self) -> float:
        """How far the repeat that is furthest from the median is from it."""
        return max(self.highest - self.median, self.median - self.lowest)


class Group(msgspec.Struct, frozen=True):
    """All runs that differ only in their repeat."""

    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def ok(self) -> tuple[Result, ...]:
        """The runs that count: they went well, and nothing disturbed them."""
        return tuple(result for result in self.results if not why_left_out(result))

    @property
    def workers(self) -> int:
        return len(self.first.workers)

    @property
    def target(self) -> str | None:
        """The loss or accuracy that every run of it reached, as it was asked for: `loss=0.35`."""
        rules = {result.reached.rule if result.reached else None for result in self.ok}
        rule = rules.pop() if len(rules) == 1 else None
        return rule if rule and rule.startswith(("loss", "accuracy")) else None

    @property
    def wanted(self) -> list[str]:
        """The losses and accuracies that were asked for, reached or not."""
        return [rule for rule in self.first.settings.get("stop") or () if rule.startswith(("loss", "accuracy"))]

    def values(self, of: Of) -> list[float]:
        """Of the runs that count and have the figure."""
        return [value for result in self.ok if (value := of(result)) is not None]

    def spread(self, of: Of) -> Spread | None:
        values = self.values(of)
        return Spread.of(values) if values else None


def why_left_out(result: Result) -> str | None:
    """Why a run's figures are not to be used; None if they are."""
    if result.status != "ok":
        return f"{result.status}: {result.reason}" if result.reason else result.status
    return "tainted: something disturbed it" if result.tainted else None


def group_repeats(results: Sequence[Result], *, by_sweep: bool = False) -> list[Group]:
    """`by_sweep`: runs of different sweeps are no repeats, however alike; for before and after a change."""
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        groups.setdefault((*_identity(result), sweep_of(result) if by_sweep else ""), []).append(result)
    return [Group(tuple(members)) for members in groups.values()]


def sweep_of(result: Result) -> str:
    """A run's id is the name of its sweep and a number."""
    return result.run.rpartition("-")[0]


def overlap(results: Sequence[Result]) -> bool:
    """Whether a configuration is in more than one sweep."""
    pairs = {(_identity(result), sweep_of(result)) for result in results}
    return len(pairs) > len({identity for identity, _ in pairs})


def _identity(result: Result) -> tuple[object, ...]:
    return tuple(setting(result, name) for name in _names(result))


def identity_except(group: Group, *left_out: str) -> tuple[str, ...]:
    """All that was asked for, but for these: equal for groups that differ in nothing else."""
    return tuple(f"{name} {setting(group.first, name)}" for name in _names(group.first) if name not in left_out)


def comparable_key(group: Group) -> tuple[str, str]:
    """Only groups of the same workload and data can be held against each other."""
    return group.first.workload, group.first.data


def setting(result: Result, name: str) -> str:
    """One thing that was asked for, as text."""
    value = asked(result, name)
    if isinstance(value, list):
        # A fault is several words.
        return (", " if name == "fault" else " ").join(value) or "-"
    return "-" if value is None else str(value)


def asked(result: Result, name: str) -> Any:
    """One thing that was asked for."""
    if name == SWEEP:
        return sweep_of(result)
    return getattr(result, name) if name in _FIELDS else result.settings.get(name, DEFAULTS.get(name))


def varied(groups: Sequence[Group]) -> list[str]:
    """What was asked for differently among these groups; the sweep only if they are alike without it."""
    names = dict.fromkeys(name for group in groups for name in _names(group.first))
    found = [name for name in names if len({setting(group.first, name) for group in groups}) > 1]
    alike = len({tuple(setting(group.first, name) for name in found) for group in groups}) < len(groups)
    return [SWEEP, *found] if alike else found


def names(groups: Sequence[Group]) -> list[str]:
    """Each group by what sets it apart from the others, to be used in a sentence."""
    apart = varied(groups)
    rest = [name for name in apart if name != "layout"]
    # A layout that only follows from the strategy, all having as many workers, tells nothing.
    as_many = len({group.workers for group in groups}) == 1
    if as_many and len({tuple(setting(group.first, name) for name in rest) for group in groups}) == len(groups):
        apart = rest
    return [" ".join(_part(group.first, name) for name in apart) or group.first.strategy for group in groups]


def _part(result: Result, name: str) -> str:
    value = setting(result, name)
    if name in ("layout", "stop"):
        return f"'{value}'" if name == "layout" else f"until {value}"
    if name == "fault":
        return "without faults" if value == "-" else f"with '{value}'"
    return value if name in (SWEEP, "workload", "engine", "strategy") else f"{name.replace('_', ' ')} {value}"


SWEEP = "sweep"
_FIELDS = ("workload", "size", "engine", "strategy", "layout", "batch", "seed", "hosts_kind", "data")
_SETTINGS = DEFAULTS.keys() - {*_FIELDS, "hosts"}


def _names(result: Result) -> list[str]:
    # An older run knows less of what can be asked for: it had what is usual.
    return [*_FIELDS, *sorted({*result.settings, *_SETTINGS})]
