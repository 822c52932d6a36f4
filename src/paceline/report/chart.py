"""A figure as data that plotly's script draws: views of traces and a layout, with numbers packed in base 64."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")
"""Okabe and Ito's colours, which people with any kind of colour vision can tell apart."""
DASHES = ("solid", "dot", "dash", "dashdot")
PHASE_COLOURS = {
    "compute": "#009E73",
    "pull": "#0072B2",
    "push": "#E69F00",
    "wait": "#D55E00",
    "data": "#56B4E9",
    "eval": "#CC79A7",
    "checkpoint": "#F0E442",
    "fused": "#999999",
}
Trace = dict[str, Any]
Layout = dict[str, Any]


class View(msgspec.Struct, frozen=True):
    """One way to look at a figure."""

    name: str
    traces: Sequence[Trace]
    layout: Layout


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    """Names the kind of figure; with the run it makes the figure's place in the page."""
    title: str
    reading: str
    """One sentence that says how to read it."""
    views: Sequence[View]
    height: int = 360


def packed(values: Any, kind: str = "f8") -> dict[str, str]:
    """Numbers as plotly takes them without parsing."""
    return {"dtype": kind, "bdata": b64encode(np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()).decode()}


def colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def dash(number: int) -> str:
    """When colours run out, lines differ in their dashes."""
    return DASHES[number // len(PALETTE) % len(DASHES)]


def axes(titles: Sequence[str], x_title: str, weights: Sequence[float] = ()) -> Layout:
    """Subplots one above the other on one x axis, the first on top, their heights as the weights say."""
    gap = 0.04 if len(titles) > 1 else 0.0
    parts = weights or [1.0] * len(titles)
    layout: Layout = {}
    top = 1.0
    for number, (title, part) in enumerate(zip(titles, parts, strict=True)):
        bottom = max(0.0, top - (1 - gap * (len(titles) - 1)) * part / sum(parts))
        domain = [round(bottom, 4), round(top, 4)]
        layout[f"yaxis{axis(number)}"] = {"title": {"text": title}, "domain": domain, "anchor": "x"}
        top = bottom - gap
    layout["xaxis"] = {"title": {"text": x_title}, "anchor": f"y{axis(len(titles) - 1)}"}
    return layout


def axis(number: int) -> str:
    """plotly's suffix of an axis: none for the first, then 2, 3, …"""
    return str(number + 1) if number else ""


def bars_height(rows: int, each: int = 34) -> int:
    return 110 + each * max(2, rows)
