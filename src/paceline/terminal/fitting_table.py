"""Tables that are cut into parts where the terminal is too narrow, instead of folding every cell."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from paceline.terminal.tables import align_right, plain_table

_GAP = 2


class Lines:
    """Sentences, each with its further lines set in under its first."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines:
            for number, part in enumerate(Text(line).wrap(console, max(20, options.max_width - 4))):
                part.rstrip()
                yield Text("  " if number == 0 else "    ") + part


class FittingTable:
    """Labels in the first columns, which every part repeats; then blocks of figures, as many in a part as fit."""

    def __init__(self, labels: Sequence[str], blocks: Sequence[Sequence[str]], left: Sequence[str] = ()) -> None:
        """Figures of a block stay together; those in `left` are no numbers."""
        self._labels, self._blocks, self._left = list(labels), [list(block) for block in blocks], set(left)
        self._header = [*labels, *[figure for block in blocks for figure in block]]
        self._rows: list[list[str]] = []

    def add(self, labels: Sequence[str], figures: Sequence[str]) -> None:
        self._rows.append([*labels, *figures])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, columns in enumerate(self._parts(options.max_width)):
            if number:
                yield Text()
            yield self._table(columns)

    def _parts(self, width: int) -> Iterator[list[int]]:
        """The columns of each part, labels left out."""
        free = width - sum(self._width(index) for index in range(len(self._labels)))
        part: list[int] = []
        for block in self._columns_that_say_something():
            if part and sum(map(self._width, [*part, *block])) - _GAP > free:
                yield part
                part = []
            part += block
        yield part

    def _columns_that_say_something(self) -> Iterator[list[int]]:
        number = len(self._labels)
        for block in self._blocks:
            columns = range(number, number + len(block))
            yield [index for index in columns if any(row[index] not in ("", "-") for row in self._rows)]
            number += len(block)

    def _table(self, figures: list[int]) -> Table:
        columns = [*range(len(self._labels)), *figures]
        table = plain_table(*[self._header[index] for index in columns])
        align_right(table, *[self._header[index] for index in figures if self._header[index] not in self._left])
        for row in self._rows:
            table.add_row(*[Text(row[index]) for index in columns])
        return table

    def _width(self, index: int) -> int:
        return max(cell_len(text) for text in (self._header[index], *(row[index] for row in self._rows))) + _GAP
