"""Shows a reproduced table, our values beside the published ones: on the terminal, as Markdown, as JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.present.numbers import MISSING, decimals
from paceline.recipes.claims import CheckedClaim
from paceline.recipes.comparison import Cell, Row, TableComparison
from paceline.recipes.notes import published
from paceline.recipes.recipe import Column, PublishedReport, Recipe
from paceline.recipes.reproduction import Reproduction
from paceline.terminal.tables import plain_table

_LEGEND = "Each cell: our value (published value)"


def view(reproduction: Reproduction) -> RenderableType:
    recipe = reproduction.recipe
    head, rows = grid(recipe, reproduction.table)
    table = plain_table(*head)
    for column in table.columns[len(recipe.keys) :]:
        column.justify = "right"
    for row in rows:
        table.add_row(*map(Text, row))
    lines = [Text(f"- {line}") for line in (*reproduction.notes, *recipe.notes)]
    title = Text(f"{recipe.name}: {recipe.title}", style="bold")
    return Group(title, Text(_LEGEND, style="dim"), Text(), table, Text(), *lines)


def markdown(reproduction: Reproduction) -> str:
    recipe = reproduction.recipe
    head, rows = grid(recipe, reproduction.table)
    rule = ["---"] * len(recipe.keys) + ["---:"] * (len(head) - len(recipe.keys))
    return "\n".join(
        [
            f"### {recipe.name}{_also(recipe)}",
            "",
            f"{recipe.title}. `paceline reproduce {recipe.name}{' --full' if reproduction.full else ''}`",
            "",
            *(_line(cells) for cells in (head, rule, *rows)),
            "",
            *(f"- {_escaped(line)}" for line in (*reproduction.notes, *recipe.notes)),
            "",
        ]
    )


def report_heading(name: str, report: PublishedReport) -> str:
    """The heading above a report's tables, as Markdown."""
    number = name.removeprefix("report")
    return "\n".join(
        [f"## Report {number}: {report.title}", "", f"On {report.machines}. {report.left_out}".strip(), ""]
    )


def record(reproduction: Reproduction) -> dict[str, Any]:
    """The JSON object of a reproduction: every row with its keys, our values and the published ones."""
    return {
        "recipe": reproduction.recipe.name,
        "covers": list(reproduction.recipe.names[1:]),
        "form": "full" if reproduction.full else "small",
        "runs": list(reproduction.runs),
        "rows": [_row_record(reproduction.recipe, row) for row in reproduction.table.rows],
        "claims": [_claim_record(claim) for claim in reproduction.table.claims],
        "remarks": [*reproduction.notes, *reproduction.recipe.notes],
    }


def recipe_list(recipes: Sequence[Recipe], counts: Sequence[Sequence[int]]) -> Table:
    """All recipes, with the number of runs in the small and the full form."""
    table = plain_table("recipe", "contents", "runs", "runs with --full")
    for recipe, runs in zip(recipes, counts, strict=True):
        table.add_row(recipe.name, recipe.title + _also(recipe), *map(str, runs))
    return table


def grid(recipe: Recipe, table: TableComparison) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text, arranged as in the report."""
    if recipe.across is None:
        head = [key.name for key in recipe.keys] + [column.name for column in recipe.columns]
        return head, [[*row.keys, *_texts(recipe, row)] for row in table.rows]
    return _transposed(recipe, table.rows, recipe.across)


def _transposed(recipe: Recipe, rows: Sequence[Row], across: str) -> tuple[list[str], list[list[str]]]:
    """With a column for each value of the key `across`, and a row for each published column and other key."""
    position = [key.name for key in recipe.keys].index(across)
    values = list(dict.fromkeys(row.keys[position] for row in rows))
    others = [key.name for key in recipe.keys if key.name != across]
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        rest = tuple(key for number, key in enumerate(row.keys) if number != position)
        for column, text in zip(recipe.columns, _texts(recipe, row), strict=True):
            lines.setdefault((*rest, column.name), {})[row.keys[position]] = text
    head = [*others, across, *values]
    return head, [[*names, *(cells.get(value, MISSING) for value in values)] for names, cells in lines.items()]


def _texts(recipe: Recipe, row: Row) -> list[str]:
    return [_text(column, cell) for column, cell in zip(recipe.columns, row.cells, strict=True)]


def _text(column: Column, cell: Cell) -> str:
    ours = MISSING if cell.ours is None else decimals(cell.ours, column.digits)
    return ours if cell.theirs is None else f"{ours} ({published(cell.theirs)})"


def _row_record(recipe: Recipe, row: Row) -> dict[str, Any]:
    return {
        **{key.name: value for key, value in zip(recipe.keys, row.keys, strict=True)},
        **{
            column.name: {"ours": cell.ours, "theirs": cell.theirs}
            for column, cell in zip(recipe.columns, row.cells, strict=True)
        },
    }


def _claim_record(claim: CheckedClaim) -> dict[str, Any]:
    """`holds` is null if the claim was not tested or these runs cannot tell."""
    ratios = [pair.value for pair in claim.pairs]
    return {**msgspec.to_builtins(claim), "holds": claim.holds, "ratios": ratios}


def _also(recipe: Recipe) -> str:
    """` (also figure2 and figure8)`, ` (also figure7 to figure10)`, or nothing."""
    if not recipe.covers:
        return ""
    few = len(recipe.covers) < 3
    return f" (also {' and '.join(recipe.covers) if few else f'{recipe.covers[0]} to {recipe.covers[-1]}'})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
