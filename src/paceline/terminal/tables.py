"""The common look of all tables on the terminal."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from paceline.store.paths import RunPaths
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


def logs_of(result: Result) -> str:
    """Where to look for the cause of a failure: the logs of the tasks that incidents name, else all logs."""
    paths = RunPaths(Path(result.dir))
    tasks = dict.fromkeys(incident.task for incident in result.incidents if incident.task)
    return ", ".join(str(paths.log(task)) for task in tasks) or str(paths.logs)
