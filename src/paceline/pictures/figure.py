"""A picture as plain data: panels with lines or bars. `draw.py` draws it; nothing here does."""

from collections.abc import Sequence
from typing import Literal

import msgspec

Dash = Literal["solid", "dashed", "dotted"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    """A number; lines of the same number have the same colour in all panels."""
    dash: Dash = "solid"
    markers: bool = False


class Bars(msgspec.Struct, frozen=True, kw_only=True):
    """One series of bars: a value for each position on the x axis; None: no bar."""

    name: str
    values: Sequence[float | None]
    ranges: Sequence[tuple[float, float] | None] = ()
    """The lowest and the highest repeat of each bar."""
    colour: int = 0
    published: bool = False
    """Whether the values are those of the report."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    lines: Sequence[Line] = ()
    bars: Sequence[Bars] = ()
    categories: Sequence[str] = ()
    """The positions of the bars."""
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[float] = ()
    """Vertical lines, e.g. the ends of epochs."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """The last part of the file name."""
    title: str
    panels: Sequence[Panel]
    columns: int = 2
    note: str = ""
