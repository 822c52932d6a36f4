"""Injected faults and incidents in a report: marks in the charts over time, and a table."""

from collections.abc import Mapping, Sequence

from paceline.page.blocks import Mark
from paceline.present.faults import FAULT_COLUMNS, fault_cells, fault_values, was_injected
from paceline.report.table import Cell, DataTable, text_cell
from paceline.store.result import FaultResult, Result

_NOTE = (
    "at, until: training time at which the fault started and ended. The other times count from the start of the fault. "
    "detected: first incident about the task or host. restarted: all tasks lost by the fault run again. back at full "
    "speed: throughput is at least 90 % of that before the fault."
)


def marks_of(result: Result, start_s: float) -> list[Mark]:
    """The faults and incidents of a run, in order of training time, which is 0 at `start_s` of the run's clock."""
    faults = [_fault(fault, result.train_s) for fault in result.faults if was_injected(fault)]
    incidents = [Mark(kind="incident", at=round(one.t_s - start_s, 4), text=one.what) for one in result.incidents]
    return sorted([*faults, *incidents], key=lambda mark: mark.at)


def faults_table(results: Sequence[Result], labels: Mapping[str, str]) -> DataTable:
    """One row per fault of each run; `labels` names the runs by their directory."""
    rows = [
        [text_cell(labels[result.dir]), text_cell(fault.what), *map(Cell, fault_cells(fault), fault_values(fault))]
        for result in results
        for fault in result.faults
    ]
    return DataTable(name="Injected faults", note=_NOTE, columns=["run", "fault", *FAULT_COLUMNS], rows=rows)


def _fault(fault: FaultResult, train_s: float) -> Mark:
    """A kill takes no time; another fault lasts until it was undone, or else until the end."""
    at_s = fault.at_s or 0.0
    if fault.what.startswith("kill"):
        return Mark(kind="fault", at=at_s, text=fault.what)
    return Mark(
        kind="fault", at=at_s, until=max(train_s, at_s) if fault.over_s is None else fault.over_s, text=fault.what
    )
