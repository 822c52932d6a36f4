"""Compares our results with the published ones: table rows, ratios, and the published claims."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec

from paceline.recipes.claims import CheckedClaim, RowValues, Values, check_claims
from paceline.recipes.observe import Observation
from paceline.recipes.recipe import NONE, Published, Recipe


class Cell(msgspec.Struct, frozen=True):
    ours: float | None
    theirs: Published | None
    range: tuple[float, float] | None = None
    """Our lowest and highest value over the repeats."""

    @property
    def ratio(self) -> float | None:
        """Our value over the published one; 1 if ours is within a published range."""
        if self.ours is None or self.theirs is None or isinstance(self.theirs, str):
            return None
        low, high = self.theirs if isinstance(self.theirs, tuple) else (self.theirs, self.theirs)
        nearest = min(max(self.ours, low), high)
        return self.ours / nearest if nearest else None


class Row(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]
    cells: tuple[Cell, ...]


class TableComparison(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]
    missing_rows: int
    """Published rows for which there is no run."""
    claims: tuple[CheckedClaim, ...]


def compare_with_published(
    recipe: Recipe, observations: Sequence[Observation], untested: Mapping[str, str] | None = None
) -> TableComparison:
    """`untested`: field of a column -> why these runs test no claim about it."""
    ours = _our_values(recipe, observations)
    width = len(recipe.keys)
    theirs = {tuple(map(_key_text, row[:width])): row[width:] for row in recipe.rows}
    # Rows are in the published order, unless we have rows that were not published (such as more points of a curve).
    order = [key for key in theirs if key in ours] if ours.keys() <= theirs.keys() else list(ours)
    rows = tuple(Row(key, _cells(ours[key], theirs.get(key))) for key in order)
    claims = check_claims(recipe, {key: ours[key] for key in order}, untested or {})
    return TableComparison(rows, len(theirs) - sum(key in ours for key in theirs), claims)


def ratios(recipe: Recipe, table: TableComparison) -> dict[str, tuple[float, float]]:
    """By column, the smallest and the largest ratio of our value to the published one."""
    found = {}
    for number, column in enumerate(recipe.columns):
        values = [ratio for row in table.rows if (ratio := row.cells[number].ratio) is not None]
        if values:
            found[column.name] = (min(values), max(values))
    return found


def _our_values(recipe: Recipe, observations: Iterable[Observation]) -> RowValues:
    """By the keys of a row, for each column one value per run."""
    groups: dict[tuple[str, ...], dict[object, list[Observation]]] = {}
    for number, observation in enumerate(observations):
        values = [str(observation.get(key.field, NONE)) for key in recipe.keys]
        # Hosts, workers and layouts that have no label in the recipe are not part of its table.
        if any(key.labels and value not in key.labels for key, value in zip(recipe.keys, values, strict=True)):
            continue
        row = tuple(key.labels.get(value, value) for key, value in zip(recipe.keys, values, strict=True))
        groups.setdefault(row, {}).setdefault(observation.get("run", number), []).append(observation)
    return {
        row: [_values_of_runs(column.field, runs.values()) for column in recipe.columns] for row, runs in groups.items()
    }


def _values_of_runs(field: str, runs: Iterable[Sequence[Observation]]) -> Values:
    """The median over the records of each run: several records of one run are no repeats."""
    found = ([value for record in run if isinstance(value := record.get(field), float | int)] for run in runs)
    return tuple(median(numbers) for numbers in found if numbers)


def _cells(ours: Sequence[Values], theirs: Sequence[Published] | None) -> tuple[Cell, ...]:
    published = [None if value == NONE else value for value in theirs] if theirs else [None] * len(ours)
    return tuple(_cell(values, value) for values, value in zip(ours, published, strict=True))


def _cell(values: Values, published: Published | None) -> Cell:
    if not values:
        return Cell(None, published)
    return Cell(median(values), published, (min(values), max(values)))


def _key_text(value: Published) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)
