"""Injected faults in a report: marks in the charts over time, and a table."""

from collections.abc import Mapping, Sequence

from paceline.present.colours import FAULT_COLOUR
from paceline.present.faults import FAULT_COLUMNS, fault_cells, fault_values, was_injected
from paceline.report.chart import Layout, Trace
from paceline.report.html import chart_text
from paceline.report.table import Cell, DataTable, text_cell
from paceline.store.result import FaultResult, Result

_MOST_LABELS = 5
"""Most faults whose text is shown in a chart; more would overlap."""
_NOTE = (
    "at, until: training time at which the fault started and ended. The other times count from the start of the fault. "
    "detected: first incident about the task or host. restarted: all tasks lost by the fault run again. back at full "
    "speed: throughput is at least 90 % of that before the fault."
)


def mark_faults(layout: Layout, result: Result) -> None:
    """Add a line where each fault started and a band while it lasted, to a chart over training time."""
    faults = [fault for fault in result.faults if was_injected(fault)]
    if not faults:
        return
    layout["shapes"] = [*layout.get("shapes", []), *(_shape(fault, result.train_s) for fault in faults)]
    layout["annotations"] = [*layout.get("annotations", []), *map(_annotation, faults[:_MOST_LABELS])]


def faults_caption(result: Result) -> str:
    """A sentence for the caption of a marked chart; empty if no fault was injected."""
    return " Purple marks: injected faults." if any(map(was_injected, result.faults)) else ""


def faults_table(results: Sequence[Result], labels: Mapping[str, str]) -> DataTable:
    """One row per fault of each run; `labels` names the runs by their directory."""
    rows = [
        [text_cell(labels[result.dir]), text_cell(fault.what), *map(Cell, fault_cells(fault), fault_values(fault))]
        for result in results
        for fault in result.faults
    ]
    return DataTable(name="Injected faults", note=_NOTE, columns=["run", "fault", *FAULT_COLUMNS], rows=rows)


def _shape(fault: FaultResult, train_s: float) -> Trace:
    base = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    line = {"color": FAULT_COLOUR, "width": 2}
    if fault.what.startswith("kill"):
        return {**base, "type": "line", "x0": fault.at_s, "x1": fault.at_s, "line": line}
    end = max(train_s, fault.at_s or 0.0) if fault.over_s is None else fault.over_s
    band = {"fillcolor": FAULT_COLOUR, "opacity": 0.25, "line": {**line, "width": 1}}
    return {**base, **band, "type": "rect", "x0": fault.at_s, "x1": end}


def _annotation(fault: FaultResult) -> Trace:
    return {
        "x": fault.at_s, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False,
        "text": chart_text(fault.what), "font": {"color": FAULT_COLOUR, "size": 11},
    }  # fmt: skip
