"""Faults that were caused: marked in the figures of a run over time, and in a table."""

from collections.abc import Sequence

from paceline.report.chart import Layout, Trace
from paceline.report.html import label
from paceline.report.table import Cell, DataTable, words
from paceline.store.result import FaultResult, Result
from paceline.terminal.fault_table import COLUMNS, figures

_COLOUR = "#CC79A7"
_MOST_LABELS = 5
_NOTE = (
    "Seconds of training when each fault began and was over; then, counted from the fault, the seconds until an "
    "incident named its task or host, until the tasks it cost were at work again, and until the run was at 90 % of its "
    "pace before."
)


def mark_faults(layout: Layout, result: Result) -> None:
    """A line where each began, a band for as long as it lasted, on an x axis of seconds of training."""
    caused = _caused(result)
    if not caused:
        return
    layout["shapes"] = [*layout.get("shapes", []), *(_shape(fault, result.train_s) for fault in caused)]
    layout["annotations"] = [*layout.get("annotations", []), *map(_annotation, caused[:_MOST_LABELS])]


def about_faults(result: Result) -> str:
    """A sentence for those who read a marked figure; none if nothing was caused."""
    return " Purple marks are faults that were caused." if _caused(result) else ""


def faults_sheet(results: Sequence[Result]) -> DataTable:
    """One row a fault of each run."""
    rows = [
        [words(result.run), words(fault.what), *_cells(fault)]
        for result in results
        for fault in result.faults
    ]  # fmt: skip
    return DataTable(name="Faults caused", note=_NOTE, columns=["run", "fault", *COLUMNS], rows=rows)


def _caused(result: Result) -> list[FaultResult]:
    return [fault for fault in result.faults if fault.at_s is not None]


def _cells(fault: FaultResult) -> list[Cell]:
    values = (
        fault.at_s, fault.over_s, fault.detected_s, fault.restarted_s, fault.back_at_speed_s,
        None if fault.at_s is None else fault.updates_lost,
    )  # fmt: skip
    return [Cell(text, value) for text, value in zip(figures(fault), values, strict=True)]


def _shape(fault: FaultResult, train_s: float) -> Trace:
    place = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    line = {"color": _COLOUR, "width": 2}
    if fault.what.startswith("kill"):
        return {**place, "type": "line", "x0": fault.at_s, "x1": fault.at_s, "line": line}
    end = max(train_s, fault.at_s or 0.0) if fault.over_s is None else fault.over_s
    band = {"fillcolor": _COLOUR, "opacity": 0.25, "line": {**line, "width": 1}}
    return {**place, **band, "type": "rect", "x0": fault.at_s, "x1": end}


def _annotation(fault: FaultResult) -> Trace:
    return {
        "x": fault.at_s, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False,
        "text": label(fault.what), "font": {"color": _COLOUR, "size": 11},
    }  # fmt: skip
