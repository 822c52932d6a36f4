"""A chart as data for the plotly script: views with traces and a layout, with numbers encoded in base 64."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from paceline.present.colours import LINE_COLOURS

DASHES = ("solid", "dot", "dash", "dashdot")
Trace = dict[str, Any]
Layout = dict[str, Any]


class View(msgspec.Struct, frozen=True):
    """One of the selectable views of a chart."""

    name: str
    traces: Sequence[Trace]
    layout: Layout


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    """The kind of chart; with the run it is the id of the chart in the page."""
    title: str
    caption: str
    """How to read the chart."""
    views: Sequence[View]
    height: int = 360


def encoded(values: Any, kind: str = "f8") -> dict[str, str]:
    """Numbers in the binary form that plotly reads without parsing text; `kind` is a NumPy type."""
    return {"dtype": kind, "bdata": b64encode(np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()).decode()}


def line_colour(number: int) -> str:
    return LINE_COLOURS[number % len(LINE_COLOURS)]


def line_dash(number: int) -> str:
    """Lines that have the same colour differ in their dashes."""
    return DASHES[number // len(LINE_COLOURS) % len(DASHES)]


def stacked_axes(titles: Sequence[str], x_title: str, weights: Sequence[float] = ()) -> Layout:
    """Subplots below each other with a common x axis, with heights in proportion to the weights."""
    gap = 0.04 if len(titles) > 1 else 0.0
    heights = weights or [1.0] * len(titles)
    layout: Layout = {}
    top = 1.0
    for number, (title, height) in enumerate(zip(titles, heights, strict=True)):
        bottom = max(0.0, top - (1 - gap * (len(titles) - 1)) * height / sum(heights))
        domain = [round(bottom, 4), round(top, 4)]
        layout[f"yaxis{axis_suffix(number)}"] = {"title": {"text": title}, "domain": domain, "anchor": "x"}
        top = bottom - gap
    layout["xaxis"] = {"title": {"text": x_title}, "anchor": f"y{axis_suffix(len(titles) - 1)}"}
    return layout


def axis_suffix(number: int) -> str:
    """The suffix of an axis name in plotly: none for the first, then 2, 3, …"""
    return str(number + 1) if number else ""


def bars_height(rows: int, row_height: int = 34) -> int:
    """Height in pixels of a chart with horizontal bars; 110 are for the legend and the axis."""
    return 110 + row_height * max(2, rows)
