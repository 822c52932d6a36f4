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
    asked = tuple(sorted((key, str(value)) for key, value in result.settings.items()))
    return (
        result.workload,
        result.engine,
        result.strategy,
        result.layout,
        result.batch,
        result.seed,
        result.hosts_kind,
        asked,
    )
