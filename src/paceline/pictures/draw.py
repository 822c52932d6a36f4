"""Draws figures as PNG and SVG files with Matplotlib, which needs neither a browser nor a network nor a display."""

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

from paceline.errors import SpecError, StoreError
from paceline.pictures.figure import Figure, Line, Panel
from paceline.present.colours import LINE_COLOURS

SUFFIXES = ("png", "svg")
_PANEL_INCHES = (4.6, 2.7)
_DOTS_PER_INCH = 90
_DASHES = {"solid": "-", "dashed": "--", "dotted": ":"}
_TITLE_CHARACTERS = 70
"""Per column of panels."""
_COLOURS = 64
"""Colours in the palette of a PNG file."""
_LEGEND_ROWS = 12
"""More names than this get a second column."""


def write_figures(figures: Sequence[Figure], directory: Path, prefix: str, suffixes: Sequence[str]) -> list[Path]:
    """Write each figure as DIRECTORY/PREFIX-NAME.SUFFIX; returns the files."""
    drawing = _matplotlib() if figures else None
    written = []
    for figure in figures:
        drawn = _draw(drawing, figure)
        for suffix in suffixes:
            target = directory / f"{prefix}-{figure.name}.{suffix}"
            try:
                directory.mkdir(parents=True, exist_ok=True)
                _save(drawn, target, suffix)
            except OSError as error:
                raise StoreError(f"cannot write {target}: {error.strerror}; choose another directory") from None
            written.append(target)
    return written


def check_available() -> None:
    """Raise SpecError if Matplotlib is not installed."""
    _matplotlib()


def _matplotlib() -> Any:
    """The class of figures that draws into files, without the global state and the display of pyplot."""
    try:
        import matplotlib
        from matplotlib.figure import Figure as MatplotlibFigure
    except ImportError:
        raise SpecError("pictures need Matplotlib: pip install 'paceline[pictures]'") from None
    # Text stays text in SVG files, and the same data gives the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "paceline", "font.size": 8})
    return MatplotlibFigure


def _save(drawn: Any, target: Path, suffix: str) -> None:
    """Write the file, without a date, so that the same data gives the same file."""
    if suffix == "svg":
        drawn.savefig(target, metadata={"Date": None})
        return
    from PIL import Image

    buffer = BytesIO()
    drawn.savefig(buffer, dpi=_DOTS_PER_INCH)
    # A palette makes files of lines and bars several times smaller.
    Image.open(buffer).convert("RGB").quantize(_COLOURS).save(target, optimize=True)


def _draw(make: Any, figure: Figure) -> Any:
    columns = min(figure.columns, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    width, height = _PANEL_INCHES
    drawn = make(figsize=(width * columns, height * rows + 0.9), layout="constrained")
    drawn.suptitle(fill(figure.title, _TITLE_CHARACTERS * columns), fontsize=9)
    axes = [drawn.add_subplot(rows, columns, number + 1) for number in range(len(figure.panels))]
    for panel, axis in zip(figure.panels, axes, strict=True):
        _draw_panel(panel, axis)
    handles: dict[str, Any] = {}
    for axis in axes:
        handles |= {name: handle for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    if handles:
        most = max(1, math.ceil(len(handles) / _LEGEND_ROWS))
        drawn.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=max(most, min(4, len(handles))),
            fontsize=7, frameon=False,
        )  # fmt: skip
    if figure.note:
        drawn.supxlabel(figure.note, fontsize=7)
    return drawn


def _draw_panel(panel: Panel, axis: Any) -> None:
    axis.set_title(panel.title, fontsize=8)
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)
    for line in panel.lines:
        _draw_line(line, axis)
    _draw_bars(panel, axis)
    for position in panel.marks:
        axis.axvline(position, color="0.75", linewidth=0.6, zorder=0)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    elif panel.bars:
        axis.set_ylim(bottom=0)
    axis.grid(axis="y", color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_line(line: Line, axis: Any) -> None:
    axis.plot(
        line.x, line.y, label=line.name, color=_colour(line.colour), linestyle=_DASHES[line.dash], linewidth=1.1,
        marker="o" if line.markers else None, markersize=3,
    )  # fmt: skip


def _draw_bars(panel: Panel, axis: Any) -> None:
    if not panel.bars:
        return
    width = 0.8 / len(panel.bars)
    for number, bars in enumerate(panel.bars):
        offset = (number - (len(panel.bars) - 1) / 2) * width
        positions = [place + offset for place in range(len(panel.categories))]
        values = [math.nan if value is None else value for value in bars.values]
        style: dict[str, Any] = {"color": _colour(bars.colour)}
        if bars.published:
            style = {"facecolor": "none", "edgecolor": _colour(bars.colour), "hatch": "////"}
        axis.bar(positions, values, width * 0.92, label=bars.name, linewidth=0.8, **style)
        for position, value, ends in zip(positions, values, bars.ranges, strict=False):
            if ends and ends[0] < ends[1] and math.isfinite(value):
                axis.plot([position, position], ends, color="black", linewidth=0.9)
    axis.set_xticks(range(len(panel.categories)), panel.categories)


def _colour(number: int) -> str:
    return LINE_COLOURS[number % len(LINE_COLOURS)]
