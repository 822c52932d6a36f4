"""Compares several runs: everything that `paceline compare` shows, and its JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from paceline.analyze.baseline import Pair, pairs
from paceline.analyze.best_configuration import BestConfiguration, best_configurations
from paceline.analyze.difference import Difference
from paceline.analyze.metrics import ALL, informative_metrics
from paceline.analyze.regression_gate import GateResult
from paceline.analyze.repeats import (
    Group,
    exclusion_reason,
    group_names,
    group_repeats,
    run_labels,
    setting_value,
    varied,
)
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
    def run_labels(self) -> dict[str, str]:
        """What each run is called, by its directory."""
        return run_labels([result for group in self.groups for result in group.results])

    @property
    def excluded(self) -> list[tuple[Result, str]]:
        """Runs whose metrics are not used, each with the reason."""
        results = (result for group in self.groups for result in group.results)
        return [(result, reason) for result in results if (reason := exclusion_reason(result))]

    @property
    def unpaired(self) -> list[str]:
        """Names of groups that are in no pair, neither compared nor used as a baseline, e.g. of one sweep only."""
        paired = {id(group) for pair in self.pairs for group in (pair.group, pair.base)}
        return [name for group, name in zip(self.groups, self.names, strict=True) if id(group) not in paired]

    @property
    def differences(self) -> list[Difference]:
        """Of each group from its baseline, in each informative metric."""
        metrics = informative_metrics(self.groups)
        return [found for pair in self.pairs for metric in metrics if (found := pair.difference(metric))]


def compare(results: Sequence[Result], *, base: Sequence[str] = (), by_sweep: bool = False) -> Comparison:
    """`base`: directories of runs whose group is the baseline; the first group if empty."""
    groups = group_repeats(results, by_sweep=by_sweep)
    names = group_names(groups)
    return Comparison(
        groups=groups,
        names=names,
        pairs=pairs(groups, names, _group_with(groups, base)),
        best_configurations=best_configurations(groups, names),
        scalings=scalings(groups, names),
        sync_async_comparisons=sync_async_comparisons(groups, names),
    )


def _group_with(groups: Sequence[Group], base: Sequence[str]) -> Group | None:
    if not base:
        return None
    found = next((group for group in groups if any(result.dir in base for result in group.results)), None)
    if found is None or not found.ok:
        raise UsageError(f"--base {base[0]}: no successful run among those compared; name a run that went well")
    return found


def as_json(comparison: Comparison, gate_results: Sequence[GateResult] | None = None) -> dict[str, Any]:
    """The JSON object of `paceline compare --json`; values are those of the runs' own JSON."""
    labels = comparison.run_labels
    record: dict[str, Any] = {
        "groups": [
            _group(group, name, varied(comparison.groups), labels)
            for group, name in zip(comparison.groups, comparison.names, strict=True)
        ],
        "left_out": [{"run": labels[result.dir], "why": reason} for result, reason in comparison.excluded],
        "unpaired": comparison.unpaired,
        "differences": [_difference(difference) for difference in comparison.differences],
        "answers": [
            {"goal": best.goal, "winner": best.name, "workload": best.winner.first.workload}
            | {"real": best.is_significant, "lead": _difference(best.lead), "sentence": best.sentence}
            | {"different_updates": best.different_updates}
            for best in comparison.best_configurations
        ],
        "scaling": [_scaling(scaling) for scaling in comparison.scalings],
        "sync_async": [
            {"group": pair.name, "base": pair.base_name, "prices": [_difference(cost) for cost in pair.costs]}
            | {"sentence": pair.sentence, "different_updates": pair.different_updates}
            for pair in comparison.sync_async_comparisons
        ],
    }
    if gate_results is not None:
        record["too_slow"] = any(result.too_slow for result in gate_results)
        record["rulings"] = [{"too_slow": result.too_slow, "why": result.why} for result in gate_results]
    return record


def _group(group: Group, name: str, settings: Sequence[str], labels: Mapping[str, str]) -> dict[str, Any]:
    values = {metric.key: metric.values(group) for metric in ALL}
    spreads = {metric.key: group.spread(metric.read) for metric in ALL if values[metric.key]}
    return {
        "name": name,
        "runs": [labels[result.dir] for result in group.ok],
        "workers": group.workers,
        "examples_per_update": group.first.examples_per_update,
        "lr": group.first.lr,
        "target": group.target,
        "varied": {key: setting_value(group.first, key) for key in settings},
        "figures": {
            key: {"median": spread.median, "lowest": spread.lowest, "highest": spread.highest, "values": values[key]}
            for key, spread in spreads.items()
            if spread
        },
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "figure": difference.metric.key,
        "group": difference.name,
        "base": difference.base,
        "ratio": difference.ratio.value,
        "low": difference.ratio.low,
        "high": difference.ratio.high,
        "outcome": difference.outcome,
        "better": difference.is_better,
        "repeats": [difference.repeats, difference.base_repeats],
        "too_short": list(difference.too_short),
        "sentence": difference.sentence,
    }


def _scaling(scaling: Scaling) -> dict[str, Any]:
    points = []
    for point in scaling.points:
        gains = {"pace": point.throughput, "to_target": point.to_target}
        points.append(
            {"group": point.name, "workers": point.workers}
            | {
                key: _difference(gain) | {"speedup": gain.gain.value, "efficiency": point.efficiency(gain)}
                for key, gain in gains.items()
                if gain
            }
        )
    base = {"base": scaling.base_name, "base_workers": scaling.base.workers}
    return {"kind": scaling.kind, **base, "points": points}
