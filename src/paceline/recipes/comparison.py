"""Compares our results with the published ones: table rows, ratios, and whether each published claim holds here."""

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from paceline.recipes.observe import Observation
from paceline.recipes.recipe import NONE, Claim, Published, Recipe

NOISE = 0.02
"""Values whose ratio differs from 1 by less are neither more nor less than each other."""


class Cell(msgspec.Struct, frozen=True):
    ours: float | None
    theirs: Published | None

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


class CheckedClaim(msgspec.Struct, frozen=True):
    """A published claim, checked on our values."""

    says: str
    holds: bool | None
    """None: these runs do not contain the rows that the claim is about."""
    ratios: tuple[float, ...]
    """For each pair of rows that it is about."""


class TableComparison(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]
    missing_rows: int
    """Published rows for which there is no run."""
    claims: tuple[CheckedClaim, ...]


def compare_with_published(recipe: Recipe, observations: Sequence[Observation]) -> TableComparison:
    ours = _our_values(recipe, observations)
    width = len(recipe.keys)
    theirs = {tuple(map(_key_text, row[:width])): row[width:] for row in recipe.rows}
    # Rows are in the published order, unless we have rows that were not published (such as more points of a curve).
    order = [key for key in theirs if key in ours] if ours.keys() <= theirs.keys() else list(ours)
    rows = tuple(Row(key, _cells(ours[key], theirs.get(key))) for key in order)
    return TableComparison(rows, len(theirs) - sum(key in ours for key in theirs), _check_claims(recipe, rows))


def ratios(recipe: Recipe, table: TableComparison) -> dict[str, tuple[float, float]]:
    """By column, the smallest and the largest ratio of our value to the published one."""
    found = {}
    for number, column in enumerate(recipe.columns):
        values = [ratio for row in table.rows if (ratio := row.cells[number].ratio) is not None]
        if values:
            found[column.name] = (min(values), max(values))
    return found


def _our_values(recipe: Recipe, observations: Iterable[Observation]) -> dict[tuple[str, ...], list[float | None]]:
    """By the keys of a row, its values as medians over the repeats."""
    groups: dict[tuple[str, ...], list[Observation]] = {}
    for observation in observations:
        values = [str(observation.get(key.field, NONE)) for key in recipe.keys]
        # Hosts, workers and layouts that have no label in the recipe are not part of its table.
        if any(key.labels and value not in key.labels for key, value in zip(recipe.keys, values, strict=True)):
            continue
        row = tuple(key.labels.get(value, value) for key, value in zip(recipe.keys, values, strict=True))
        groups.setdefault(row, []).append(observation)
    return {
        row: [_median([observation.get(column.field) for observation in group]) for column in recipe.columns]
        for row, group in groups.items()
    }


def _median(values: Sequence[object]) -> float | None:
    numbers = [value for value in values if isinstance(value, float | int)]
    return median(numbers) if numbers else None


def _cells(ours: Sequence[float | None], theirs: Sequence[Published] | None) -> tuple[Cell, ...]:
    published = [None if value == NONE else value for value in theirs] if theirs else [None] * len(ours)
    return tuple(Cell(our_value, value) for our_value, value in zip(ours, published, strict=True))


def _key_text(value: Published) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def _check_claims(recipe: Recipe, rows: Sequence[Row]) -> tuple[CheckedClaim, ...]:
    names = [key.name for key in recipe.keys]
    rows_by_keys = [(dict(zip(names, row.keys, strict=True)), row) for row in rows]
    return tuple(_check_claim(claim, recipe, rows_by_keys) for claim in recipe.claims)


def _check_claim(claim: Claim, recipe: Recipe, rows: Sequence[tuple[dict[str, str], Row]]) -> CheckedClaim:
    number = next(i for i, column in enumerate(recipe.columns) if column.name == claim.column)
    found = []
    for keys, row in rows:
        if not claim.of.items() <= keys.items():
            continue
        counterpart = next((other for other_keys, other in rows if other_keys == {**keys, **claim.than}), None)
        value, other_value = row.cells[number].ours, counterpart.cells[number].ours if counterpart else None
        if value is not None and other_value:
            found.append(value / other_value)
    return CheckedClaim(claim.says, all(_holds(claim, ratio) for ratio in found) if found else None, tuple(found))


def _holds(claim: Claim, ratio: float) -> bool:
    match claim.is_:
        case "more":
            return ratio > 1 + NOISE
        case "less":
            return ratio < 1 - NOISE
        case "same":
            return abs(ratio - 1) <= claim.within
