"""Selects the runs that are shown in detail: all of a few, else the most informative ones."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.repeats import Group, group_names, run_labels
from paceline.report.best_configuration import BestConfigurationRow
from paceline.store.result import Result

MOST_RUNS = 8
"""Runs with charts in a page: more would make it slow to open."""


class SelectedRun(msgspec.Struct, frozen=True):
    result: Result
    title: str
    """The name of its configuration."""
    label: str
    """The id of the run, or its directory if another run has the same id."""
    why: str
    """Why it was selected; the status if it failed; else empty."""


def select_runs(
    groups: Sequence[Group], best: Sequence[BestConfigurationRow], most: int = MOST_RUNS
) -> list[SelectedRun]:
    """All runs if they are few, else the best, the slowest, the median and failed ones, then one per configuration."""
    runs = [(name, result) for name, group in zip(group_names(groups), groups, strict=True) for result in group.results]
    labels = run_labels([result for _, result in runs])
    if len(runs) <= most:
        return [
            SelectedRun(result, name, labels[result.dir], "" if result.status == "ok" else result.status)
            for name, result in runs
        ]
    selected: dict[str, SelectedRun] = {}
    for name, result, why in _candidates(groups, best):
        known = selected.get(result.dir)
        if known and why and why not in known.why:
            why = f"{known.why}; {why}" if known.why else why
            selected[result.dir] = SelectedRun(result, name, labels[result.dir], why)
        elif not known and len(selected) < most:
            selected[result.dir] = SelectedRun(result, name, labels[result.dir], why)
    return list(selected.values())


def _candidates(groups: Sequence[Group], best: Sequence[BestConfigurationRow]) -> list[tuple[str, Result, str]]:
    """Name, run and reason, the most informative first."""
    named = dict(zip(group_names(groups), groups, strict=True))
    found = [(row.winner, _median_run(named[row.winner]), row.goal) for row in best if row.winner in named]
    ranked = sorted((item for item in named.items() if item[1].ok), key=lambda item: _throughput(item[1]))
    if ranked:
        (slowest, slowest_group), (middle, middle_group) = ranked[0], ranked[len(ranked) // 2]
        found += [
            (slowest, _median_run(slowest_group), "slowest"),
            (middle, _median_run(middle_group), "median throughput"),
        ]
    failed = [(name, result) for name, group in named.items() for result in group.results if result.status != "ok"]
    found += [(name, result, result.status) for name, result in failed[:2]]
    return found + [(name, _median_run(group), "") for name, group in named.items()]


def _median_run(group: Group) -> Result:
    """The repeat with the median throughput."""
    results = sorted(group.ok or group.results, key=lambda result: result.updates_per_s)
    return results[len(results) // 2]


def _throughput(group: Group) -> float:
    spread = group.spread(lambda r: r.examples_per_s or r.updates_per_s)
    return spread.median if spread else 0.0
