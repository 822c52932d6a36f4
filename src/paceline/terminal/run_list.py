"""Draws the list of runs: one line per run, whatever the width of the terminal."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from paceline.analyze.listing import ListedRun
from paceline.present import labels, numbers
from paceline.present.numbers import MISSING
from paceline.store.result import Result
from paceline.terminal.tables import STATUS_STYLE

_GAP = 2
"""Spaces between two columns."""
_COLUMNS = ("run", "started", "status", "workload", "engine", "strategy", "layout", "speed", "bottleneck", "tags")
_DROPPED_FIRST = ("layout", "engine", "bottleneck", "tags", "started", "workload", "strategy", "speed")
"""Columns that are left out where the terminal is too narrow, in this order. The others are always there."""


class RunList:
    """A table whose least important columns are left out where the terminal is too narrow. No cell is split.

    Print it with `crop=False`: the id and the status of a run may be wider than a very narrow terminal.
    """

    def __init__(self, runs: Sequence[ListedRun]) -> None:
        self._rows = [_cells(run) for run in runs]
        self._columns = [name for name in _COLUMNS if name != "tags" or any(run.tags for run in runs)]
        self._widths = {
            name: max(cell_len(name), *(cell_len(row[name].plain) for row in self._rows)) for name in _COLUMNS
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._fitting(options.max_width)
        for row in ({name: Text(name, style="bold") for name in columns}, *self._rows):
            yield self._line([(row[name], self._widths[name]) for name in columns])

    def _line(self, cells: list[tuple[Text, int]]) -> Text:
        """The cells side by side. Not a rich table, which would crop an id that is wider than the terminal."""
        line = Text(no_wrap=True, overflow="ignore")
        for cell, width in cells:
            line.append_text(cell).append(" " * (width - cell_len(cell.plain) + _GAP))
        line.rstrip()
        return line

    def _fitting(self, width: int) -> list[str]:
        columns = list(self._columns)
        for name in _DROPPED_FIRST:
            if name not in columns:
                continue
            if sum(self._widths[column] + _GAP for column in columns) - _GAP <= width:
                break
            columns.remove(name)
        return columns


def _cells(run: ListedRun) -> dict[str, Text]:
    tainted = " (tainted)" if run.result and run.result.tainted else ""
    started = run.started
    texts = {
        "run": run.run,
        "started": f"{started.astimezone():%Y-%m-%d %H:%M}" if started else MISSING,
        "workload": run.title,
        "engine": run.engine,
        "strategy": run.strategy,
        "layout": run.layout,
        "speed": _speed(run.result),
        "bottleneck": _bottleneck(run.result),
        "tags": " ".join(run.tags),
    }
    # A cell is one line, whatever text a damaged run contains.
    cells = {name: Text(" ".join(text.split()) or MISSING) for name, text in texts.items()}
    return {**cells, "status": Text(f"{run.status}{tainted}", style=STATUS_STYLE.get(run.status, ""))}


def _speed(result: Result | None) -> str:
    """`0.38 s to loss 0.35` of a run that reached a target, else `26,954 examples/s`; `-` without a step."""
    if result is None or not result.updates_per_s:
        return MISSING
    if result.reached and result.to_target_s is not None:
        return f"{numbers.seconds(result.to_target_s)} to {labels.target(result.reached.rule)}"
    if result.batch:
        return f"{numbers.number(result.examples_per_s)} examples/s"
    return f"{numbers.number(result.updates_per_s)} updates/s"


def _bottleneck(result: Result | None) -> str:
    """`compute 62 %`; `not clear` if no bottleneck can be named; `-` without a step."""
    if result is None or not result.updates_per_s:
        return MISSING
    cause = labels.cause(result.verdict.cause)
    return f"{cause} {numbers.percent(result.verdict.share)}" if result.verdict.where else cause
