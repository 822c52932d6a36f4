"""Draws the faults that were injected into a run, and the recovery from each."""

from collections.abc import Sequence

from rich.table import Table

from paceline.present.faults import FAULT_COLUMNS, fault_cells
from paceline.store.result import FaultResult
from paceline.terminal.tables import align_right, plain_table


def faults_table(faults: Sequence[FaultResult]) -> Table:
    table = plain_table("injected fault", *FAULT_COLUMNS)
    align_right(table, *FAULT_COLUMNS)
    for fault in faults:
        table.add_row(fault.what, *fault_cells(fault))
    return table
