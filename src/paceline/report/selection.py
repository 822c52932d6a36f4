"""Which runs are shown in detail: all of a few, else the telling ones."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.repeats import Group
from paceline.report.best_configuration import BestConfigurationRow
from paceline.report.titles import titles
from paceline.store.result import Result

MOST_RUNS = 8


class Chosen(msgspec.Struct, frozen=True):
    result: Result
    title: str
    """Of its configuration."""
    why: str


def choose(groups: Sequence[Group], answers: Sequence[BestConfigurationRow], most: int = MOST_RUNS) -> list[Chosen]:
    """The winners, the slowest, the middle one, a run that went wrong, then one of each configuration."""
    every = [(title, result) for title, group in zip(titles(groups), groups, strict=True) for result in group.results]
    if len(every) <= most:
        return [Chosen(result, title, _plain(result)) for title, result in every]
    chosen: dict[str, Chosen] = {}
    for title, result, why in _candidates(groups, answers):
        known = chosen.get(result.run)
        if known and why and why not in known.why:
            chosen[result.run] = Chosen(result, title, f"{known.why}; {why}" if known.why else why)
        elif not known and len(chosen) < most:
            chosen[result.run] = Chosen(result, title, why)
    return list(chosen.values())


def _candidates(groups: Sequence[Group], answers: Sequence[BestConfigurationRow]) -> list[tuple[str, Result, str]]:
    named = dict(zip(titles(groups), groups, strict=True))
    found = [(one.winner, _typical(named[one.winner]), one.goal) for one in answers if one.winner in named]
    ranked = sorted((item for item in named.items() if item[1].ok), key=lambda item: _pace(item[1]))
    if ranked:
        found += [
            (ranked[0][0], _typical(ranked[0][1]), "slowest"),
            (ranked[len(ranked) // 2][0], _typical(ranked[len(ranked) // 2][1]), "median pace"),
        ]
    bad = [(title, result) for title, group in named.items() for result in group.results if result.status != "ok"]
    found += [(title, result, result.status) for title, result in bad[:2]]
    return found + [(title, _typical(group), "") for title, group in named.items()]


def _typical(group: Group) -> Result:
    """The repeat in the middle."""
    results = sorted(group.ok or group.results, key=lambda result: result.updates_per_s)
    return results[len(results) // 2]


def _pace(group: Group) -> float:
    spread = group.spread(lambda r: r.examples_per_s or r.updates_per_s)
    return spread.median if spread else 0.0


def _plain(result: Result) -> str:
    return result.status if result.status != "ok" else ""
