"""Strategies side by side, fairly: an update of one is not an update of the other.

An asynchronous update is made of one worker's batch, a synchronous one of every worker's, so updates/s say little.
What the same loss or accuracy took in seconds, updates and examples does, with the staleness beside it.
"""

from collections.abc import Sequence

import msgspec

from paceline.analyze.difference import Difference, difference, ratio_words
from paceline.analyze.metrics import EXAMPLES_TO_TARGET, TO_TARGET, UPDATES_TO_TARGET, target_words
from paceline.analyze.repeats import Group, Spread, identity_except, names, overlap, sweep_of

PRICES = (TO_TARGET, UPDATES_TO_TARGET, EXAMPLES_TO_TARGET)
_UNITS = {TO_TARGET.key: "seconds", UPDATES_TO_TARGET.key: "updates", EXAMPLES_TO_TARGET.key: "examples"}


class SyncAsyncComparison(msgspec.Struct, frozen=True):
    """What the same target took one strategy, against what it took another with as many workers."""

    group: Group
    name: str
    base: Group
    base_name: str
    prices: tuple[Difference, ...]
    """Seconds, updates, examples to the target; none if not both reached it."""

    @property
    def sentence(self) -> str:
        """`the same loss 0.5 took ps-async 0.40× the seconds and 1.40× the updates, against ps-sync`."""
        if not self.prices:
            return ""
        *first, last = [_told(price) for price in self.prices]
        took = f"{', '.join(first)} and {last}" if first else last
        target = target_words(self.group.target)
        return f"the same {target} took {self.name} {took}, against {self.base_name}{self._doubt}"

    @property
    def _doubt(self) -> str:
        unsure = [price for price in self.prices if price.outcome in ("unclear", "unknown") and not price.is_close]
        if not unsure:
            return ""
        if len(unsure) == len(self.prices):
            return " (all of it may be chance)"
        return f" (the {' and '.join(_UNITS[price.figure.key] for price in unsure)} may be chance)"


def _told(price: Difference) -> str:
    unit = _UNITS[price.figure.key]
    return f"as many {unit}" if price.is_close else f"{ratio_words(price.ratio)} the {unit}"


def rivals(groups: Sequence[Group], called: Sequence[str] | None = None) -> list[list[tuple[Group, str]]]:
    """Groups that differ in nothing but the strategy (and the layout it asks for), with as many workers, above one."""
    by_sweep = overlap([group.first for group in groups])
    found: dict[tuple[object, ...], list[tuple[Group, str]]] = {}
    for group, name in zip(groups, called or names(groups), strict=True):
        if group.ok and group.workers > 1:
            sweep = sweep_of(group.first) if by_sweep else ""
            found.setdefault((sweep, group.workers, *identity_except(group, "strategy", "layout")), []).append(
                (group, name)
            )
    return [family for family in found.values() if len({group.first.strategy for group, _ in family}) > 1]


def sync_async_comparisons(groups: Sequence[Group], called: Sequence[str] | None = None) -> list[SyncAsyncComparison]:
    """Each asynchronous group against each synchronous one that is its rival."""
    made = []
    for family in rivals(groups, called):
        for base, base_name in family:
            for group, name in family:
                if is_synchronous(base) and not is_synchronous(group):
                    prices = [difference(figure, group, base, name, base_name) for figure in PRICES]
                    made.append(
                        SyncAsyncComparison(group, name, base, base_name, tuple(price for price in prices if price))
                    )
    return made


def is_synchronous(group: Group) -> bool:
    """Whether every worker's batch is in each update."""
    return group.first.synchronous


def steps_per_worker(group: Group) -> dict[str, Spread]:
    """Over the repeats: in an asynchronous run the fast make more."""
    steps: dict[str, list[float]] = {}
    for result in group.ok:
        for worker in result.workers:
            steps.setdefault(worker.task, []).append(worker.steps)
    return {task: Spread.of(counts) for task, counts in steps.items()}


def caused(group: Group) -> dict[str, int]:
    """Faults that were made to happen, each with the number of runs that count in which it did."""
    came = [fault.what for result in group.ok for fault in result.faults if fault.at_s is not None]
    return {what: came.count(what) for what in dict.fromkeys(came)}


def uneven(group: Group) -> tuple[str, float] | None:
    """The worker that made more than twice the steps of another, and its share of all."""
    steps = {task: spread.median for task, spread in steps_per_worker(group).items()}
    if len(steps) < 2 or max(steps.values()) <= 2 * max(1, min(steps.values())):
        return None
    most = max(steps, key=lambda task: steps[task])
    return most, steps[most] / sum(steps.values())
