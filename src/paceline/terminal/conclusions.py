"""What several runs show, in words and small tables."""

from collections.abc import Iterable, Sequence
from math import isclose

from rich.console import RenderableType
from rich.text import Text

from paceline.analyze.comparison import Comparison
from paceline.analyze.difference import Difference, interval_words
from paceline.analyze.metrics import ACCURACY, EXAMPLES, STALENESS, UPDATES, informative_metrics
from paceline.analyze.scaling import Scaling
from paceline.analyze.sync_async import PRICES, rivals
from paceline.terminal import format as fmt
from paceline.terminal.caveats import caveats
from paceline.terminal.fitting_table import FittingTable, Lines

_FEW_GROUPS = 3
"""Up to so many are compared in every figure; more only in the first one that tells something."""


def conclusions(comparison: Comparison) -> list[RenderableType]:
    parts = [*_answers(comparison), *_against_base(comparison), *_fairness(comparison), *_scaling(comparison.scalings)]
    notes = caveats(comparison)
    return [*parts, *_section("Notes", notes)] if notes else parts


def _answers(comparison: Comparison) -> Iterable[RenderableType]:
    # With two configurations the difference between them says all of it.
    if len(comparison.groups) > 2 and comparison.best_configurations:
        leads = _not_said_yet([answer.lead for answer in comparison.best_configurations])
        yield from _section("Which wins", [one.sentence for one in comparison.best_configurations if one.lead in leads])


def _against_base(comparison: Comparison) -> Iterable[RenderableType]:
    figures, bases = informative_metrics(comparison.groups), {pair.base_name for pair in comparison.pairs}
    lines = []
    for pair in comparison.pairs:
        found = [one for figure in figures if (one := pair.difference(figure))]
        said = _worth_saying(found, len(comparison.groups))
        lines += [one.sentence if len(bases) == 1 else f"{one.sentence}, against {one.base}" for one in said]
    if lines:
        yield from _section(f"Against the base, {bases.pop()}" if len(bases) == 1 else "Each against its base", lines)


def _worth_saying(differences: Sequence[Difference], groups: int) -> Sequence[Difference]:
    return _not_said_yet(differences) if groups <= _FEW_GROUPS else differences[:1]


def _not_said_yet(differences: Sequence[Difference]) -> list[Difference]:
    """Without updates/s where they say what examples/s do, an update being of as many examples."""
    paces = {(one.name, one.base): one.ratio.value for one in differences if one.figure is EXAMPLES}
    return [
        one
        for one in differences
        if one.figure is not UPDATES or not isclose(one.ratio.value, paces.get((one.name, one.base), 0.0), rel_tol=1e-3)
    ]


def _fairness(comparison: Comparison) -> Iterable[RenderableType]:
    families = rivals(comparison.groups, comparison.names)
    if not comparison.sync_async_comparisons:
        return
    yield from _section("Sync against async: what the same target took", [])
    table = FittingTable(["configuration"], [[figure.title for figure in PRICES], [STALENESS.title, ACCURACY.title]])
    for family in families:
        for group, name in family:
            table.add([name], [fmt.figure(figure, group) for figure in (*PRICES, STALENESS, ACCURACY)])
    yield table
    yield Lines([trade.sentence for trade in comparison.sync_async_comparisons if trade.sentence])


def _scaling(found: Sequence[Scaling]) -> Iterable[RenderableType]:
    for scaling in found:
        yield Text()
        yield Text(f"{scaling.kind.capitalize()} scaling from {scaling.base_name}: {_WHAT[scaling.kind]}", style="bold")
        pace = f"speed-up in {scaling.figure.title}"
        table = FittingTable(["configuration", "workers"], [[pace, "efficiency"], ["speed-up to target", "efficiency"]])
        for point in scaling.points:
            gains = [point.pace, point.to_target]
            cells = [cell for gain in gains for cell in (_gain(gain), f"{point.efficiency(gain):.0%}" if gain else "-")]
            table.add([point.name, f"{point.workers}"], cells)
        yield table


_WHAT = {
    "weak": "each worker's batch stays, so all take more",
    "strong": "each worker's batch shrinks, so all take as much",
}


def _gain(gain: Difference | None) -> str:
    if gain is None:
        return "-"
    words = f"{gain.gain.value:.2f}×"
    return f"{words} ({interval_words(gain.gain)})" if gain.gain.is_known else words


def _section(title: str, lines: Sequence[str]) -> Iterable[RenderableType]:
    yield Text()
    yield Text(title, style="bold")
    yield Lines(lines)
