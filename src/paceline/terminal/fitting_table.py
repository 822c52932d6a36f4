"""Tables that are split into several below each other where the terminal is too narrow, instead of folding cells."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from paceline.terminal.tables import align_right, plain_table

_GAP = 2
"""Spaces between two columns."""


class Lines:
    """Sentences, indented; the continuation lines of a wrapped sentence are indented further."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines:
            for number, part in enumerate(Text(line).wrap(console, max(20, options.max_width - 4))):
                part.rstrip()
                yield Text("  " if number == 0 else "    ") + part


class UnwrappedLine:
    """A line that is not wrapped, such as a command to copy. The console must print it with `crop=False`."""

    def __init__(self, line: str) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self._line)
        yield Segment.line()


class FittingTable:
    """Label columns, which every part of a split table repeats, then blocks of value columns that stay together."""

    def __init__(
        self, labels: Sequence[str], blocks: Sequence[Sequence[str]], left_aligned: Sequence[str] = ()
    ) -> None:
        """`blocks` are the headings of the value columns; values are right-aligned unless named in `left_aligned`."""
        self._labels, self._blocks = list(labels), [list(block) for block in blocks]
        self._left_aligned = set(left_aligned)
        self._header = [*labels, *[heading for block in blocks for heading in block]]
        self._rows: list[list[str]] = []

    def add(self, labels: Sequence[str], values: Sequence[str]) -> None:
        self._rows.append([*labels, *values])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, columns in enumerate(self._parts(options.max_width)):
            if number:
                yield Text()
            yield self._table(columns)

    def _parts(self, width: int) -> Iterator[list[int]]:
        """The value columns of each part."""
        free = width - sum(self._width(index) for index in range(len(self._labels)))
        part: list[int] = []
        for block in self._non_empty_blocks():
            if part and sum(map(self._width, [*part, *block])) - _GAP > free:
                yield part
                part = []
            part += block
        if part:
            yield part

    def _non_empty_blocks(self) -> Iterator[list[int]]:
        """The columns of each block that have a value in some row."""
        number = len(self._labels)
        for block in self._blocks:
            columns = range(number, number + len(block))
            yield [index for index in columns if any(row[index] not in ("", "-") for row in self._rows)]
            number += len(block)

    def _table(self, values: list[int]) -> Table:
        columns = [*range(len(self._labels)), *values]
        table = plain_table(*[self._header[index] for index in columns])
        align_right(table, *[self._header[index] for index in values if self._header[index] not in self._left_aligned])
        for row in self._rows:
            table.add_row(*[Text(row[index]) for index in columns])
        return table

    def _width(self, index: int) -> int:
        return max(cell_len(text) for text in (self._header[index], *(row[index] for row in self._rows))) + _GAP
