"""A table as data: what it is called, its columns with their units, and cells that know their number."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.repeats import Group, Of, Spread
from paceline.terminal import format as fmt


class Cell(msgspec.Struct, frozen=True):
    text: str
    value: float | None = None
    """The number itself, as the result has it: of repeats, their median."""


class DataTable(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def words(value: str) -> Cell:
    return Cell(value)


def count(value: int | None) -> Cell:
    return Cell("-") if value is None else Cell(f"{value:,}", value)


def figure(group: Group, of: Of, *, scale: float = 1.0, digits: int | None = None) -> Cell:
    """A figure of all repeats that went well."""
    return spread(group.spread(of), scale=scale, digits=digits)


def spread(value: Spread | None, *, scale: float = 1.0, digits: int | None = None) -> Cell:
    return Cell(fmt.spread(value, scale=scale, digits=digits), value.median if value else None)
