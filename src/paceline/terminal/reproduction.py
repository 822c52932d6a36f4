"""A table made again, ours beside the report's: for the terminal, as Markdown, as JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline import units
from paceline.recipes.comparison import Cell, Row, TableComparison
from paceline.recipes.notes import published
from paceline.recipes.recipe import NONE, Column, PublishedReport, Recipe
from paceline.recipes.reproduction import Reproduction
from paceline.terminal.tables import plain_table

_LEGEND = "Cells are ours, with the report's in brackets."


def view(one: Reproduction) -> RenderableType:
    head, rows = grid(one.recipe, one.made)
    table = plain_table(*head)
    for column in table.columns[_left_columns(one.recipe) :]:
        column.justify = "right"
    for row in rows:
        table.add_row(*map(Text, row))
    lines = [Text(f"- {line}") for line in (*one.remarks, *one.recipe.notes)]
    title = Text(f"{one.recipe.name}: {one.recipe.title}", style="bold")
    return Group(title, Text(_LEGEND, style="dim"), Text(), table, Text(), *lines)


def markdown(one: Reproduction) -> str:
    head, rows = grid(one.recipe, one.made)
    left = _left_columns(one.recipe)
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    also = f" (also {_also(one.recipe)})" if one.recipe.covers else ""
    return "\n".join(
        [
            f"### {one.recipe.name}{also}",
            "",
            f"{one.recipe.title}. `paceline reproduce {one.recipe.name}{' --full' if one.full else ''}`",
            "",
            *(_line(cells) for cells in (head, rule, *rows)),
            "",
            *(f"- {_escaped(line)}" for line in (*one.remarks, *one.recipe.notes)),
            "",
        ]
    )


def report_heading(name: str, report: PublishedReport) -> str:
    """What comes before a report's tables, as Markdown."""
    number = name.removeprefix("report")
    return "\n".join(
        [f"## Report {number}: {report.title}", "", f"On {report.machines}. {report.left_out}".strip(), ""]
    )


def record(one: Reproduction) -> dict[str, Any]:
    """For scripts: every row with its keys and both figures."""
    return {
        "recipe": one.recipe.name,
        "covers": list(one.recipe.names[1:]),
        "form": "full" if one.full else "small",
        "runs": list(one.runs),
        "rows": [_row_record(one.recipe, row) for row in one.made.rows],
        "claims": [msgspec.to_builtins(tested) for tested in one.made.tested],
        "remarks": [*one.remarks, *one.recipe.notes],
    }


def recipe_list(recipes: Sequence[Recipe], counts: Sequence[Sequence[int]]) -> Table:
    """What can be made again, with the number of runs in the small and the full form."""
    table = plain_table("recipe", "what", "runs", "--full")
    for recipe, runs in zip(recipes, counts, strict=True):
        also = f" (also {_also(recipe)})" if recipe.covers else ""
        table.add_row(recipe.name, recipe.title + also, *map(str, runs))
    return table


def grid(recipe: Recipe, made: TableComparison) -> tuple[list[str], list[list[str]]]:
    """Head and rows as text, in the shape the report had."""
    if recipe.across is None:
        head = [key.name for key in recipe.keys] + [figure.name for figure in recipe.figures]
        return head, [[*row.keys, *_texts(recipe, row)] for row in made.rows]
    return _turned(recipe, made.rows, recipe.across)


def _turned(recipe: Recipe, rows: Sequence[Row], across: str) -> tuple[list[str], list[list[str]]]:
    """One key's values at the head of the columns; a row for each figure of the other keys."""
    place = [key.name for key in recipe.keys].index(across)
    values = list(dict.fromkeys(row.keys[place] for row in rows))
    others = [key.name for key in recipe.keys if key.name != across]
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        rest = tuple(word for number, word in enumerate(row.keys) if number != place)
        for figure, text in zip(recipe.figures, _texts(recipe, row), strict=True):
            lines.setdefault((*rest, figure.name), {})[row.keys[place]] = text
    head = [*others, across, *values]
    return head, [[*names, *(cells.get(value, NONE) for value in values)] for names, cells in lines.items()]


def _left_columns(recipe: Recipe) -> int:
    return len(recipe.keys)


def _texts(recipe: Recipe, row: Row) -> list[str]:
    return [_text(figure, cell) for figure, cell in zip(recipe.figures, row.cells, strict=True)]


def _text(figure: Column, cell: Cell) -> str:
    if cell.ours is None:
        ours = NONE
    else:
        ours = units.short(cell.ours) if figure.digits is None else f"{cell.ours:,.{figure.digits}f}"
    return ours if cell.theirs is None else f"{ours} ({published(cell.theirs)})"


def _row_record(recipe: Recipe, row: Row) -> dict[str, Any]:
    return {
        **{key.name: word for key, word in zip(recipe.keys, row.keys, strict=True)},
        **{
            figure.name: {"ours": cell.ours, "theirs": cell.theirs}
            for figure, cell in zip(recipe.figures, row.cells, strict=True)
        },
    }


def _also(recipe: Recipe) -> str:
    """`figure3`, `figure2 and figure8` or `figure7 to figure10`."""
    if len(recipe.covers) < 3:
        return " and ".join(recipe.covers)
    return f"{recipe.covers[0]} to {recipe.covers[-1]}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
