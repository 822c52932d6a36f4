"""A table as data: its name, columns with units, and cells that contain both text and number."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.repeats import Group, ReadMetric, setting, varied
from paceline.present.labels import setting_label
from paceline.present.numbers import MISSING, batch, median_and_range

_ALWAYS_NAMED = ("engine", "strategy", "layout", "batch")
"""Settings that every table has as columns, even if they are the same for all configurations."""


class Cell(msgspec.Struct, frozen=True):
    text: str
    value: float | None = None
    """The number as it is in the result's JSON; the median for repeats."""


class DataTable(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def text_cell(value: str) -> Cell:
    return Cell(value)


def count_cell(value: int | None) -> Cell:
    return Cell(MISSING) if value is None else Cell(f"{value:,}", value)


def metric_cell(group: Group, read: ReadMetric, *, scale: float = 1.0, digits: int | None = None) -> Cell:
    """The median and the range over the usable runs of a group; `scale` is applied to the text only."""
    spread = group.spread(read)
    if spread is None:
        return Cell(MISSING)
    median, lowest, highest = (value * scale for value in (spread.median, spread.lowest, spread.highest))
    return Cell(median_and_range(median, lowest, highest, digits), spread.median)


def setting_columns(groups: Sequence[Group]) -> list[str]:
    """Headings of the columns that say which configuration a row is about."""
    return [setting_label(name) for name in _named_settings(groups)]


def setting_cells(group: Group, groups: Sequence[Group]) -> list[Cell]:
    """In the order of `setting_columns`."""
    first = group.first
    return [
        Cell(batch(first.batch), first.batch) if name == "batch" else text_cell(setting(first, name))
        for name in _named_settings(groups)
    ]


def _named_settings(groups: Sequence[Group]) -> list[str]:
    return [*_ALWAYS_NAMED, *(name for name in varied(groups) if name not in _ALWAYS_NAMED)]
