"""What several runs show, in words and small tables."""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paceline.analyze.comparison import Comparison
from paceline.analyze.difference import Difference, interval_words
from paceline.analyze.fairness import PRICES, rivals, uneven
from paceline.analyze.figures import ACCURACY, STALENESS, TO_TARGET, telling
from paceline.analyze.scaling import Scaling
from paceline.ui import format as fmt
from paceline.ui.fitting import FittingTable

_FEW_GROUPS = 3
"""Up to so many are compared in every figure; more only in the first one that tells something."""
_ENOUGH_REPEATS = 3


def conclusions(comparison: Comparison) -> list[RenderableType]:
    parts = [*_answers(comparison), *_against_base(comparison), *_fairness(comparison), *_scaling(comparison.scalings)]
    return [*parts, *_notes(comparison)]


def _answers(comparison: Comparison) -> Iterable[RenderableType]:
    # With two configurations the difference between them says all of it.
    if len(comparison.groups) > 2 and comparison.answers:
        yield from _section("Which wins", [answer.sentence for answer in comparison.answers])


def _against_base(comparison: Comparison) -> Iterable[RenderableType]:
    for base in dict.fromkeys(pair.base_name for pair in comparison.pairs):
        held = [pair for pair in comparison.pairs if pair.base_name == base]
        found = [[pair.difference(figure) for figure in telling(comparison.groups)] for pair in held]
        lines = [one for row in found for one in _worth_saying([d for d in row if d], len(comparison.groups))]
        if lines:
            yield from _section(f"Against {base}", [one.sentence for one in lines])


def _worth_saying(differences: Sequence[Difference], groups: int) -> Sequence[Difference]:
    return differences if groups <= _FEW_GROUPS else differences[:1]


def _fairness(comparison: Comparison) -> Iterable[RenderableType]:
    families = rivals(comparison.groups, comparison.names)
    if not comparison.trades:
        return
    yield from _section("Sync against async: what the same target took", [])
    table = FittingTable(["strategies"], [figure.title for figure in (*PRICES, STALENESS, ACCURACY)])
    for family in families:
        for group, name in family:
            table.add([name], [fmt.figure(figure, group) for figure in (*PRICES, STALENESS, ACCURACY)])
    yield Padding(table, (0, 0, 0, 2))
    yield from _lines([trade.sentence for trade in comparison.trades if trade.sentence])


def _scaling(found: Sequence[Scaling]) -> Iterable[RenderableType]:
    for scaling in found:
        yield Text()
        yield Text(f"Scaling from {scaling.base_name}, {_WHAT[scaling.kind]}", style="bold")
        pace, target = scaling.figure.title, "to target"
        table = FittingTable(
            ["configuration", "workers"],
            [f"speed-up in {pace}", "efficiency", f"speed-up {target}", "efficiency "],
        )
        for point in scaling.points:
            gains = [point.pace, point.to_target]
            cells = [cell for gain in gains for cell in (_gain(gain), f"{point.efficiency(gain):.0%}" if gain else "-")]
            table.add([point.name, f"{point.workers}"], cells)
        yield Padding(table, (0, 0, 0, 2))


_WHAT = {
    "weak": "weak: each worker's batch stays, so all together take more",
    "strong": "strong: each worker's batch shrinks, so all together take the same",
}


def _gain(gain: Difference | None) -> str:
    if gain is None:
        return "-"
    words = f"{gain.gain.value:.2f}×"
    return f"{words} ({interval_words(gain.gain)})" if gain.gain.is_known else words


def _notes(comparison: Comparison) -> Iterable[RenderableType]:
    """What a reader must know before believing the rest."""
    notes = [f"left out: {result.run}, {why}" for result, why in comparison.left_out]
    for group, name in zip(comparison.groups, comparison.names, strict=True):
        if found := uneven(group):
            notes.append(f"in {name}, {found[0]} made {found[1]:.0%} of the steps")
        reached = len(group.values(TO_TARGET.of))
        if group.wanted and group.ok and reached < len(group.ok):
            notes.append(f"{name} reached {' or '.join(group.wanted)} in {reached} of {len(group.ok)} runs")
    fewest = min((len(group.ok) for group in comparison.groups if group.ok), default=0)
    if comparison.pairs and 0 < fewest < _ENOUGH_REPEATS:
        notes.append("too few repeats to tell small differences from chance: --repeat 5 with the same --name adds some")
    if notes:
        yield Text()
        yield from (Text(f"note  {note}", style="dim") for note in notes)


def _section(title: str, lines: Sequence[str]) -> Iterable[RenderableType]:
    yield Text()
    yield Text(title, style="bold")
    yield from _lines(lines)


def _lines(lines: Sequence[str]) -> Iterable[RenderableType]:
    """Each with its further lines set in."""
    for line in lines:
        grid = Table.grid(padding=0)
        grid.add_row(Text("  "), Text(line))
        yield grid
