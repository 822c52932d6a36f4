"""Tables that are cut into parts where the terminal is too narrow, instead of folding every cell."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from paceline.ui.tables import align_right, plain_table

_GAP = 2


class FittingTable:
    """Labels in the first columns, which every part repeats; then figures, as many in a part as fit."""

    def __init__(self, labels: Sequence[str], figures: Sequence[str], left: Sequence[str] = ()) -> None:
        """`left`: figures that are not numbers."""
        self._labels, self._figures, self._left = list(labels), list(figures), set(left)
        self._rows: list[list[str]] = []

    def add(self, labels: Sequence[str], figures: Sequence[str]) -> None:
        self._rows.append([*labels, *figures])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, columns in enumerate(self._parts(options.max_width)):
            if number:
                yield Text()
            yield self._table(columns)

    def _parts(self, width: int) -> Iterator[list[int]]:
        """The figures of each part."""
        used = [index for index in range(len(self._labels), len(self._header)) if self._says_something(index)]
        free = width - sum(self._width(index) for index in range(len(self._labels)))
        part: list[int] = []
        for index in used:
            if part and sum(map(self._width, [*part, index])) - _GAP > free:
                yield part
                part = []
            part.append(index)
        yield part

    def _table(self, figures: list[int]) -> Table:
        columns = [*range(len(self._labels)), *figures]
        table = plain_table(*[self._header[index] for index in columns])
        align_right(table, *[self._header[index] for index in figures if self._header[index] not in self._left])
        for row in self._rows:
            table.add_row(*[Text(row[index]) for index in columns])
        return table

    @property
    def _header(self) -> list[str]:
        return [*self._labels, *self._figures]

    def _width(self, index: int) -> int:
        return max(cell_len(text) for text in (self._header[index], *(row[index] for row in self._rows))) + _GAP

    def _says_something(self, index: int) -> bool:
        return any(row[index] not in ("", "-") for row in self._rows)
