"""The common look of all tables on the terminal."""

from rich.table import Table
from rich.text import Text

from paceline.store.result import Result

STATUS_STYLE = {"ok": "green", "failed": "bold red", "diverged": "bold magenta", "aborted": "yellow"}


def plain_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def align_right(table: Table, *names: str) -> None:
    for column in table.columns:
        if column.header in names:
            column.justify = "right"


def status(result: Result, *, with_reason: bool = False) -> Text:
    text = Text(result.status + (" (tainted)" if result.tainted else ""), style=STATUS_STYLE[result.status])
    if with_reason and result.reason:
        text.append(f": {result.reason}")
    return text
