"""Compares our results with the published ones: table rows, ratios, and whether each published claim holds here."""

from collections.abc import Iterable, Sequence
from statistics import mean

import msgspec

from paceline.recipes.observe import Observation
from paceline.recipes.recipe import NONE, Claim, Published, Recipe

NOISE = 0.02
"""A difference of less is none."""


class Cell(msgspec.Struct, frozen=True):
    ours: float | None
    theirs: Published | None

    @property
    def ratio(self) -> float | None:
        """Ours over theirs; within a published range it is 1."""
        if self.ours is None or self.theirs is None or isinstance(self.theirs, str):
            return None
        low, high = self.theirs if isinstance(self.theirs, tuple) else (self.theirs, self.theirs)
        nearest = min(max(self.ours, low), high)
        return self.ours / nearest if nearest else None


class Row(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]
    cells: tuple[Cell, ...]


class CheckedClaim(msgspec.Struct, frozen=True):
    """A claim and what our figures say to it."""

    says: str
    holds: bool | None
    """None: not tested by these runs."""
    ratios: tuple[float, ...]


class TableComparison(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]
    left_out: int
    """Published rows for which there was no run."""
    tested: tuple[CheckedClaim, ...]


def compare_with_published(recipe: Recipe, observations: Sequence[Observation]) -> TableComparison:
    ours = _ours(recipe, observations)
    width = len(recipe.keys)
    theirs = {tuple(map(_word, row[:width])): row[width:] for row in recipe.rows}
    # As the report has them; with points of a curve of which it names a few, as they were measured.
    order = [key for key in theirs if key in ours] if ours.keys() <= theirs.keys() else list(ours)
    rows = tuple(Row(key, _cells(ours[key], theirs.get(key))) for key in order)
    return TableComparison(rows, len(theirs) - sum(key in ours for key in theirs), _test_all(recipe, rows))


def ratios(recipe: Recipe, made: TableComparison) -> dict[str, tuple[float, float]]:
    """The least and the most that a figure of ours is of theirs."""
    found = {}
    for number, figure in enumerate(recipe.figures):
        values = [ratio for row in made.rows if (ratio := row.cells[number].ratio) is not None]
        if values:
            found[figure.name] = (min(values), max(values))
    return found


def _ours(recipe: Recipe, observations: Iterable[Observation]) -> dict[tuple[str, ...], list[float | None]]:
    """Each row's figures, as means over its repeats."""
    groups: dict[tuple[str, ...], list[Observation]] = {}
    for seen in observations:
        values = [str(seen.get(key.field, NONE)) for key in recipe.keys]
        # Hosts, workers and layouts that a recipe gives no word for are none of its business.
        if any(key.words and value not in key.words for key, value in zip(recipe.keys, values, strict=True)):
            continue
        words = tuple(key.words.get(value, value) for key, value in zip(recipe.keys, values, strict=True))
        groups.setdefault(words, []).append(seen)
    return {
        words: [_mean([seen.get(figure.field) for seen in group]) for figure in recipe.figures]
        for words, group in groups.items()
    }


def _mean(values: Sequence[object]) -> float | None:
    numbers = [value for value in values if isinstance(value, float | int)]
    return mean(numbers) if numbers else None


def _cells(ours: Sequence[float | None], theirs: Sequence[Published] | None) -> tuple[Cell, ...]:
    published = [None if value == NONE else value for value in theirs] if theirs else [None] * len(ours)
    return tuple(Cell(mine, other) for mine, other in zip(ours, published, strict=True))


def _word(value: Published) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def _test_all(recipe: Recipe, rows: Sequence[Row]) -> tuple[CheckedClaim, ...]:
    names = [key.name for key in recipe.keys]
    return tuple(
        _test(claim, recipe, [(dict(zip(names, row.keys, strict=True)), row) for row in rows])
        for claim in recipe.claims
    )


def _test(claim: Claim, recipe: Recipe, rows: Sequence[tuple[dict[str, str], Row]]) -> CheckedClaim:
    number = next(i for i, figure in enumerate(recipe.figures) if figure.name == claim.figure)
    found = []
    for keys, row in rows:
        if not claim.of.items() <= keys.items():
            continue
        partner = next((other for theirs, other in rows if theirs == {**keys, **claim.than}), None)
        mine, other = row.cells[number].ours, partner.cells[number].ours if partner else None
        if mine is not None and other:
            found.append(mine / other)
    return CheckedClaim(claim.says, all(_holds(claim, ratio) for ratio in found) if found else None, tuple(found))


def _holds(claim: Claim, ratio: float) -> bool:
    match claim.is_:
        case "more":
            return ratio > 1 + NOISE
        case "less":
            return ratio < 1 - NOISE
        case "same":
            return abs(ratio - 1) <= claim.within
