"""Compares synchronous with asynchronous training fairly: by what reaching the same loss or accuracy cost.

An asynchronous update contains one worker's batch, a synchronous one a batch of every worker, so updates/s cannot be
compared. Seconds, updates and examples to the same target can, together with the staleness.
"""

from collections.abc import Sequence

import msgspec

from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import EXAMPLES_TO_TARGET, TO_TARGET, UPDATES_TO_TARGET
from paceline.analyze.repeats import Group, Spread, different_updates, group_names, identity_except, overlap, sweep_of
from paceline.present import labels
from paceline.present.faults import was_injected
from paceline.present.numbers import percent
from paceline.present.thresholds import UNEVEN_STEPS

COSTS = (TO_TARGET, UPDATES_TO_TARGET, EXAMPLES_TO_TARGET)
_UNITS = {TO_TARGET.key: "time", UPDATES_TO_TARGET.key: "updates", EXAMPLES_TO_TARGET.key: "examples"}


class SyncAsyncComparison(msgspec.Struct, frozen=True):
    """What the same target cost an asynchronous group, compared with a synchronous one of as many workers."""

    group: Group
    name: str
    base: Group
    base_name: str
    costs: tuple[Difference, ...]
    """In seconds, updates and examples to the target; empty unless both reached it."""
    different_updates: str = ""
    """How the updates of the two differ in examples or learning rate."""

    @property
    def sentence(self) -> str:
        """`to reach loss 0.5, ps-async needed 60 % less time and 40 % more updates than ps-sync`."""
        if not self.costs:
            return ""
        *first, last = [_cost_text(cost) for cost in self.costs]
        needed = f"{', '.join(first)} and {last}" if first else last
        target = labels.target(self.group.target)
        return f"to reach {target}, {self.name} needed {needed} {self._preposition} {self.base_name}{self._caveat}" + (
            f"; {self.different_updates}" if self.different_updates else ""
        )

    @property
    def _preposition(self) -> str:
        return "as" if self.costs[-1].is_close else "than"

    @property
    def _caveat(self) -> str:
        unsure = [cost for cost in self.costs if cost.outcome in ("unclear", "unknown") and not cost.is_close]
        if not unsure:
            return ""
        if unknown := [cost for cost in unsure if cost.outcome == "unknown"]:
            return f" ({unknown[0].sample_size}: significance unknown)"
        units = " and ".join(_UNITS[cost.metric.key] for cost in unsure)
        return f" (difference in {units} not significant)"


def _cost_text(cost: Difference) -> str:
    """`70 % less time`, `the same number of updates`, `67 % fewer examples`."""
    unit = _UNITS[cost.metric.key]
    countable = cost.metric is not TO_TARGET
    if cost.is_close:
        return f"the same number of {unit}" if countable else f"the same {unit}"
    comparative = "more" if cost.ratio.value > 1 else "fewer" if countable else "less"
    return f"{percent(abs(cost.ratio.value - 1))} {comparative} {unit}"


def strategy_families(groups: Sequence[Group], names: Sequence[str] | None = None) -> list[list[tuple[Group, str]]]:
    """Groups with their names that differ only in strategy and layout and have the same number of workers, at least 2.

    Families with only one strategy are left out.
    """
    # Two sweeps may contain the same configuration: then groups of different sweeps are not compared.
    keep_sweeps_apart = overlap([group.first for group in groups])
    families: dict[tuple[object, ...], list[tuple[Group, str]]] = {}
    for group, name in zip(groups, names or group_names(groups), strict=True):
        if group.ok and group.workers > 1:
            sweep = sweep_of(group.first) if keep_sweeps_apart else ""
            families.setdefault((sweep, group.workers, *identity_except(group, "strategy", "layout")), []).append(
                (group, name)
            )
    return [family for family in families.values() if len({group.first.strategy for group, _ in family}) > 1]


def sync_async_comparisons(groups: Sequence[Group], names: Sequence[str] | None = None) -> list[SyncAsyncComparison]:
    """Each asynchronous group with each synchronous one of its family."""
    comparisons = []
    for family in strategy_families(groups, names):
        for base, base_name in family:
            for group, name in family:
                if is_synchronous(base) and not is_synchronous(group):
                    costs = [difference(metric, group, base, name, base_name) for metric in COSTS]
                    known, unlike = tuple(filter(None, costs)), different_updates(group, base, name, base_name)
                    comparisons.append(SyncAsyncComparison(group, name, base, base_name, known, unlike))
    return comparisons


def is_synchronous(group: Group) -> bool:
    """Whether every update contains a batch of every worker."""
    return group.first.synchronous


def steps_per_worker(group: Group) -> dict[str, Spread]:
    """Number of steps of each worker over the repeats; in asynchronous runs it differs between workers."""
    steps: dict[str, list[float]] = {}
    for result in group.ok:
        for worker in result.workers:
            steps.setdefault(worker.task, []).append(worker.steps)
    return {task: Spread.of(counts) for task, counts in steps.items()}


def injected_faults(group: Group) -> dict[str, int]:
    """Each fault that was injected, with the number of usable runs in which it was."""
    faults = [fault.what for result in group.ok for fault in result.faults if was_injected(fault)]
    return {fault: faults.count(fault) for fault in dict.fromkeys(faults)}


def dominant_worker(group: Group) -> tuple[str, float] | None:
    """The worker with the most steps and its share of all steps; None if the workers' steps are about even."""
    steps = {task: spread.median for task, spread in steps_per_worker(group).items()}
    if len(steps) < 2 or max(steps.values()) <= UNEVEN_STEPS * max(1, min(steps.values())):
        return None
    most = max(steps, key=lambda task: steps[task])
    return most, steps[most] / sum(steps.values())
