"""What was made to go wrong in a run, and what followed."""

from collections.abc import Sequence

from rich.table import Table

from paceline.store.result import FaultResult
from paceline.terminal import format as fmt
from paceline.terminal.tables import align_right, plain_table

COLUMNS = ("at s", "until s", "noticed after s", "at work after s", "at speed after s", "updates lost")


def faults_table(faults: Sequence[FaultResult]) -> Table:
    table = plain_table("fault", *COLUMNS)
    align_right(table, *COLUMNS)
    for fault in faults:
        table.add_row(fault.what, *figures(fault))
    return table


def figures(fault: FaultResult) -> list[str]:
    """In the order of the columns."""
    if fault.at_s is None:
        return ["never came", *["-"] * (len(COLUMNS) - 1)]
    seconds = (
        fault.at_s, fault.over_s, fault.detected_s, fault.restarted_s, fault.back_at_speed_s,
    )  # fmt: skip
    return [*map(fmt.number, seconds), f"{fault.updates_lost:,}"]
