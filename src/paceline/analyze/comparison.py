"""Everything that several runs say together: what `paceline compare` shows, and its JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec

from paceline.analyze.baseline import Pair, pairs
from paceline.analyze.best_configuration import BestConfiguration, best_configurations
from paceline.analyze.difference import Difference
from paceline.analyze.metrics import ALL, informative_metrics
from paceline.analyze.regression_gate import GateResult
from paceline.analyze.repeats import Group, asked, group_repeats, names, varied, why_left_out
from paceline.analyze.scaling import Scaling, scalings
from paceline.analyze.sync_async import SyncAsyncComparison, sync_async_comparisons
from paceline.errors import UsageError
from paceline.store.result import Result


class Comparison(msgspec.Struct, frozen=True):
    groups: list[Group]
    names: list[str]
    """Of the groups, in their order."""
    pairs: list[Pair]
    best_configurations: list[BestConfiguration]
    scalings: list[Scaling]
    sync_async_comparisons: list[SyncAsyncComparison]

    @property
    def left_out(self) -> list[tuple[Result, str]]:
        """Runs that do not count, and why."""
        every = (result for group in self.groups for result in group.results)
        return [(result, why) for result in every if (why := why_left_out(result))]

    @property
    def unpaired(self) -> list[str]:
        """Groups that are held against nothing, nor anything against them: only before, only after, or alone."""
        held = {id(group) for pair in self.pairs for group in (pair.group, pair.base)}
        return [name for group, name in zip(self.groups, self.names, strict=True) if id(group) not in held]

    @property
    def differences(self) -> list[Difference]:
        """Of each group from its base, figure by figure."""
        figures = informative_metrics(self.groups)
        return [found for pair in self.pairs for figure in figures if (found := pair.difference(figure))]


def compare(results: Sequence[Result], *, base: Sequence[str] = (), by_sweep: bool = False) -> Comparison:
    """`base`: ids of runs, the first of which says which group the others are held against; else it is the first."""
    groups = group_repeats(results, by_sweep=by_sweep)
    called = names(groups)
    return Comparison(
        groups=groups,
        names=called,
        pairs=pairs(groups, called, _group_with(groups, base)),
        best_configurations=best_configurations(groups, called),
        scalings=scalings(groups, called),
        sync_async_comparisons=sync_async_comparisons(groups, called),
    )


def _group_with(groups: Sequence[Group], base: Sequence[str]) -> Group | None:
    if not base:
        return None
    found = next((group for group in groups if any(result.run in base for result in group.results)), None)
    if found is None or not found.ok:
        raise UsageError(f"base {base[0]} has no run that can be used here: name one that is compared and went well")
    return found


def as_json(comparison: Comparison, rulings: Sequence[GateResult] | None = None) -> dict[str, Any]:
    """Plain data; figures are those of the runs' own JSON."""
    told: dict[str, Any] = {
        "groups": [
            _group(group, name, varied(comparison.groups))
            for group, name in zip(comparison.groups, comparison.names, strict=True)
        ],
        "left_out": [{"run": result.run, "why": why} for result, why in comparison.left_out],
        "unpaired": comparison.unpaired,
        "differences": [_difference(one) for one in comparison.differences],
        "answers": [
            {"goal": one.goal, "winner": one.name, "workload": one.winner.first.workload, "real": one.is_real}
            | {"lead": _difference(one.lead), "sentence": one.sentence}
            for one in comparison.best_configurations
        ],
        "scaling": [_scaling(one) for one in comparison.scalings],
        "sync_async": [
            {"group": one.name, "base": one.base_name, "prices": [_difference(price) for price in one.prices]}
            | {"sentence": one.sentence}
            for one in comparison.sync_async_comparisons
        ],
    }
    if rulings is not None:
        told["too_slow"] = any(ruling.too_slow for ruling in rulings)
        told["rulings"] = [{"too_slow": one.too_slow, "why": one.why} for one in rulings]
    return told


def _group(group: Group, name: str, apart: Sequence[str]) -> dict[str, Any]:
    figures = {figure.key: figure.values(group) for figure in ALL}
    spreads = {figure.key: group.spread(figure.of) for figure in ALL if figures[figure.key]}
    return {
        "name": name,
        "runs": [result.run for result in group.ok],
        "workers": group.workers,
        "target": group.target,
        "varied": {key: asked(group.first, key) for key in apart},
        "figures": {
            key: {"median": spread.median, "lowest": spread.lowest, "highest": spread.highest, "values": figures[key]}
            for key, spread in spreads.items()
            if spread
        },
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "figure": one.figure.key,
        "group": one.name,
        "base": one.base,
        "ratio": one.ratio.value,
        "low": one.ratio.low,
        "high": one.ratio.high,
        "outcome": one.outcome,
        "better": one.is_better,
        "repeats": [one.repeats, one.base_repeats],
        "sentence": one.sentence,
    }


def _scaling(one: Scaling) -> dict[str, Any]:
    points = []
    for point in one.points:
        gains = {"pace": point.pace, "to_target": point.to_target}
        points.append(
            {"group": point.name, "workers": point.workers}
            | {
                key: _difference(gain) | {"speedup": gain.gain.value, "efficiency": point.efficiency(gain)}
                for key, gain in gains.items()
                if gain
            }
        )
    return {"kind": one.kind, "base": one.base_name, "base_workers": one.base.workers, "points": points}
