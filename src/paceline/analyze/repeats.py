"""Runs that are repeats of one another, and their figures as a middle and a spread."""

from collections.abc import Callable, Sequence
from statistics import mean, stdev

import msgspec

from paceline.store.result import Result


class Spread(msgspec.Struct, frozen=True):
    mean: float
    deviation: float | None
    """Sample standard deviation; None with fewer than two values."""


class Group(msgspec.Struct, frozen=True):
    """All runs that differ only in their repeat."""

    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def ok(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.status == "ok")

    def spread(self, figure: Callable[[Result], float | None]) -> Spread | None:
        """Over the runs that went well; None if none has the figure."""
        values = [value for result in self.ok if (value := figure(result)) is not None]
        if not values:
            return None
        return Spread(mean(values), stdev(values) if len(values) > 1 else None)


def group_repeats(results: Sequence[Result]) -> list[Group]:
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        groups.setdefault(_identity(result), []).append(result)
    return [Group(tuple(members)) for members in groups.values()]


def _identity(result: Result) -> tuple[object, ...]:
    return tuple(setting(result, name) for name in _names(result))


def setting(result: Result, name: str) -> str:
    """One thing that was asked for, as text."""
    value = getattr(result, name) if name in _FIELDS else result.settings.get(name)
    return "-" if value is None else " ".join(value) if isinstance(value, list) else str(value)


def varied(groups: Sequence[Group]) -> list[str]:
    """What was asked for differently among these groups."""
    names = dict.fromkeys(name for group in groups for name in _names(group.first))
    return [name for name in names if len({setting(group.first, name) for group in groups}) > 1]


_FIELDS = ("workload", "size", "engine", "strategy", "layout", "batch", "seed", "hosts_kind", "data")


def _names(result: Result) -> list[str]:
    return [*_FIELDS, *sorted(result.settings)]
