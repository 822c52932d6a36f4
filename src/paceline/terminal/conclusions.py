"""Draws what several runs show: the best configurations, the differences from the baseline, scaling and caveats."""

from collections.abc import Iterable, Sequence
from math import isclose

from rich.console import RenderableType
from rich.text import Text

from paceline.analyze.baseline import Pair
from paceline.analyze.caveats import caveats
from paceline.analyze.comparison import Comparison
from paceline.analyze.difference import Difference, interval_text
from paceline.analyze.metrics import ACCURACY, EXAMPLES, EXCHANGED, STALENESS, TO_TARGET, UPDATES, informative_metrics
from paceline.analyze.repeats import different_updates
from paceline.analyze.scaling import Scaling
from paceline.analyze.sync_async import COSTS, strategy_families
from paceline.present.numbers import MISSING, percent
from paceline.terminal.fitting_table import FittingTable, Lines

_FEW_GROUPS = 3
"""Up to this many groups are compared in every metric; more only in the most important one."""


_BESIDE_COSTS = (EXCHANGED, STALENESS, ACCURACY)


def conclusions(comparison: Comparison) -> list[RenderableType]:
    parts = [
        *_best_configurations(comparison),
        *_differences(comparison),
        *_sync_async(comparison),
        *_scaling(comparison.scalings),
    ]
    notes = caveats(comparison)
    return [*parts, *_section("Notes", notes)] if notes else parts


def _best_configurations(comparison: Comparison) -> Iterable[RenderableType]:
    # With two configurations, the difference between them contains all of this.
    if len(comparison.groups) > 2 and comparison.best_configurations:
        leads = _without_redundant([best.lead for best in comparison.best_configurations])
        sentences = [best.sentence for best in comparison.best_configurations if best.lead in leads]
        yield from _section("Best configuration per goal", sentences)


def _differences(comparison: Comparison) -> Iterable[RenderableType]:
    metrics, bases = informative_metrics(comparison.groups), {pair.base_name for pair in comparison.pairs}
    lines = []
    for pair in comparison.pairs:
        differences = [found for metric in metrics if (found := pair.difference(metric))]
        few_groups = len(comparison.groups) <= _FEW_GROUPS
        shown = _without_redundant(differences) if few_groups else differences[:1]
        lines += [_difference_text(one, pair, several_bases=len(bases) > 1) for one in shown]
    if lines:
        title = f"Compared with baseline {bases.pop()}" if len(bases) == 1 else "Compared with the respective baseline"
        yield from _section(title, lines)


def _difference_text(difference: Difference, pair: Pair, *, several_bases: bool) -> str:
    parts = [difference.sentence, f"baseline: {difference.base}" if several_bases else ""]
    # The time to a target says little without the size of the updates that led there.
    if difference.metric is TO_TARGET:
        parts.append(different_updates(pair.group, pair.base, pair.name, pair.base_name))
    return "; ".join(filter(None, parts))


def _without_redundant(differences: Sequence[Difference]) -> list[Difference]:
    """Without updates/s where the ratio is that of examples/s, because updates have the same number of examples."""
    ratios = {(one.name, one.base): one.ratio.value for one in differences if one.metric is EXAMPLES}
    return [
        one
        for one in differences
        if one.metric is not UPDATES
        or not isclose(one.ratio.value, ratios.get((one.name, one.base), 0.0), rel_tol=1e-3)
    ]


def _sync_async(comparison: Comparison) -> Iterable[RenderableType]:
    if not comparison.sync_async_comparisons:
        return
    families = strategy_families(comparison.groups, comparison.names)
    has_target = any(metric.text(group) != MISSING for family in families for group, _ in family for metric in COSTS)
    title = "Synchronous and asynchronous" + (": cost of reaching the target" if has_target else "")
    yield from _section(title, [])
    table = FittingTable(["configuration"], [[metric.title for metric in COSTS], [one.title for one in _BESIDE_COSTS]])
    for family in families:
        for group, name in family:
            table.add([name], [metric.text(group) for metric in (*COSTS, *_BESIDE_COSTS)])
    yield table
    yield Lines([pair.sentence for pair in comparison.sync_async_comparisons if pair.sentence])


def _scaling(scalings: Sequence[Scaling]) -> Iterable[RenderableType]:
    for scaling in scalings:
        title = f"{scaling.kind.capitalize()} scaling ({_CONSTANT[scaling.kind]}), baseline {scaling.base_name}"
        yield from _section(title, [])
        throughput = f"speed-up in {scaling.metric.title}"
        table = FittingTable(
            ["configuration", "workers"], [[throughput, "efficiency"], ["speed-up to target", "efficiency"]]
        )
        for point in scaling.points:
            gains = [point.throughput, point.to_target]
            cells = [
                cell
                for gain in gains
                for cell in (_speedup(gain), percent(point.efficiency(gain)) if gain else MISSING)
            ]
            table.add([point.name, f"{point.workers}"], cells)
        yield table


_CONSTANT = {"weak": "constant batch per worker", "strong": "constant total batch"}


def _speedup(gain: Difference | None) -> str:
    """With its confidence interval, if there is one that says something."""
    if gain is None:
        return MISSING
    text = f"{gain.gain.value:.2f}×" + (" (too short)" if gain.too_short else "")
    return f"{text} (95 % CI {interval_text(gain.gain)})" if gain.gain.is_known and not gain.gain.is_too_wide else text


def _section(title: str, lines: Sequence[str]) -> Iterable[RenderableType]:
    yield Text()
    yield Text(title, style="bold")
    yield Lines(lines)
