"""Figures of a reproduced table: our values beside the published ones as bars, and curves of its runs."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from paceline.pictures.draw import SUFFIXES, write_figures
from paceline.pictures.figure import Bars, Figure, Panel
from paceline.pictures.run_figures import first_of_each, hosts_figure, learning_figure, rate_figure
from paceline.recipes.comparison import Row
from paceline.recipes.recipe import Published, Recipe
from paceline.recipes.reproduction import Reproduction
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

_MOST_CATEGORIES = 10
"""More bars cannot be told apart."""


def write_pictures(reproduction: Reproduction, results: Sequence[Result], directory: Path) -> list[Path]:
    """Write the pictures of a recipe as PNG and SVG; returns the files."""
    figures = figures_of(reproduction, results)
    return write_figures(figures, directory, reproduction.recipe.name, SUFFIXES)


def figures_of(reproduction: Reproduction, results: Sequence[Result]) -> list[Figure]:
    """What the report showed: bars of a table, curves of evaluations, hosts over time, steps per second."""
    recipe = reproduction.recipe
    stored = {result.dir: StoredRun(RunPaths(Path(result.dir))) for result in results}
    runs = first_of_each(results, stored)
    makers = {
        "bars": lambda: bars_figure(recipe, reproduction.table.rows),
        "hosts": lambda: hosts_figure(runs, log_network=recipe.log_network),
        "learning": lambda: learning_figure(runs),
        "steps_per_s": lambda: rate_figure(runs),
    }
    found = [makers[kind]() for kind in recipe.figures]
    return [msgspec.structs.replace(one, title=f"{recipe.name}: {recipe.title}") for one in found if one]


def bars_figure(recipe: Recipe, rows: Sequence[Row]) -> Figure | None:
    """A panel for each column of the table; bars with hatches are the published values."""
    fields = [key.field for key in recipe.keys]
    position = fields.index("batch") if "batch" in fields else 0
    categories = list(dict.fromkeys(row.keys[position] for row in rows))
    if not rows or len(categories) > _MOST_CATEGORIES:
        return None
    series: dict[str, dict[str, Row]] = {}
    for row in rows:
        others = [key for number, key in enumerate(row.keys) if number != position]
        series.setdefault(", ".join(others), {})[row.keys[position]] = row
    panels = []
    for number, column in enumerate(recipe.columns):
        bars = [
            part
            for colour, (name, by_category) in enumerate(series.items())
            for part in _series(name, [by_category.get(category) for category in categories], number, colour)
        ]
        label = recipe.keys[position].name
        panels.append(Panel(title=column.name, x_label=label, categories=categories, bars=bars))
    return Figure(name="bars", title=recipe.title, panels=panels, columns=3)


def _series(name: str, rows: Sequence[Row | None], column: int, colour: int) -> list[Bars]:
    """Our bars and, if the report has any numbers, those of the report."""
    cells = [row.cells[column] if row else None for row in rows]
    ours = Bars(
        name=f"{name}, here".removeprefix(", "),
        values=[cell.ours if cell else None for cell in cells],
        ranges=[cell.range if cell else None for cell in cells],
        colour=colour,
    )
    theirs = [_number(cell.theirs) if cell else None for cell in cells]
    published = Bars(name=f"{name}, published".removeprefix(", "), values=theirs, colour=colour, published=True)
    return [ours, published] if any(value is not None for value in theirs) else [ours]


def _number(value: Published | None) -> float | None:
    """A published number; the middle of a published range."""
    if isinstance(value, tuple):
        return sum(value) / len(value)
    return None if isinstance(value, str) else value
