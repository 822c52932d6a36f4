"""Lists of tasks or hosts in as many lines as there is room for: a table with a row for each, or a grid of short cells.

Pure: a section becomes lines of text, none of them longer than the given width.
"""

from collections.abc import Sequence

import msgspec
from rich.text import Text

_GAP = 2
"""Spaces between columns."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one kind, in the forms in which they can be shown: a table, or a grid of cells."""

    columns: tuple[str, ...]
    """Headings of the table. The last column takes the rest of the line."""
    left: frozenset[str]
    """Those of the columns that are aligned to the left; the others are numbers."""
    rows: list[list[Text]]
    grid_title: str
    cells: list[Text]
    """A short form of each row."""
    short_cells: list[Text] = []
    """A still shorter form of each row, if there is one: used before cells are left out."""
    short_title: str = ""
    """The title of a grid of `short_cells`."""
    order: list[int] = []
    """The rows in the order of their importance: if there is no room for all cells, the last ones are left out."""
    highlights: list[Text] = []
    """Lines above the grid, if there is room: some of the rows with more detail."""
    notes: list[Text] = []
    """What the short form leaves out: shown below the grid, in one line."""

    def table(self, width: int) -> list[Text]:
        """A heading and a line per row."""
        heading = [Text(name, style="dim") for name in self.columns]
        return [fitted(line, width) for line in aligned([heading, *self.rows], self._is_left())]

    def grid(self, width: int, most: int | None = None) -> list[Text]:
        """A title and the cells side by side, in at most `most` lines; the last cell counts those left out."""
        notes = [fitted(Text("  ").append_text(Text(" · ").join(self.notes)), width)] if self.notes else []
        # A note names what is wrong, so it stays longer than the cells.
        notes = notes if most is None or most > 1 else []
        room = None if most is None else most - 1 - len(notes)
        title, cells = self._title_and_cells(width, room)
        lines = [fitted(Text(title, style="dim"), width), *cells, *notes]
        return lines[: most if most is None else max(most, 1)]

    def highlighted(self, width: int) -> list[Text]:
        """The grid of all cells with the highlighted rows above it."""
        title, *others = self.grid(width)
        return [title, *(fitted(line, width) for line in self.highlights), *others]

    def _title_and_cells(self, width: int, most: int | None) -> tuple[str, list[Text]]:
        lines = _grid(self.cells, width)
        if most is None or len(lines) <= most:
            return self.grid_title, lines
        cells, title = self.short_cells or self.cells, self.short_title or self.grid_title
        lines = _grid(cells, width)
        if len(lines) <= most:
            return title, lines
        widest_count = Text(f"+{len(cells)} more")
        shown = min(len(cells), most * _per_line([*cells, widest_count], width)) - 1
        if shown < 0:
            return title, []
        kept = sorted((self.order or list(range(len(cells))))[:shown])
        more = Text(f"+{len(cells) - shown} more", style="dim")
        return title, _grid([*(cells[index] for index in kept), more], width)[:most]

    def _is_left(self) -> list[bool]:
        return [name in self.left for name in self.columns]


def fit(sections: Sequence[Section], width: int, height: int) -> list[Text]:
    """The sections in at most `height` lines: as tables if there is room, the first ones first, else as grids."""
    limits: list[int | None] = [None] * len(sections)
    chosen = [_shortest(section, width) for section in sections]
    while sum(map(len, chosen)) > height and any(len(lines) > 1 for lines in chosen):
        longest = max(range(len(sections)), key=lambda index: len(chosen[index]))
        limits[longest] = len(chosen[longest]) - 1
        chosen[longest] = sections[longest].grid(width, limits[longest])
    for index, section in enumerate(sections):
        room = height - sum(map(len, chosen)) + len(chosen[index])
        if limits[index] is None and 1 + len(section.rows) <= room:
            chosen[index] = section.table(width)
        elif limits[index] is None and section.highlights and len(found := section.highlighted(width)) <= room:
            chosen[index] = found
    return [line for lines in chosen for line in lines][:height]


def aligned(rows: Sequence[Sequence[Text]], is_left: Sequence[bool]) -> list[Text]:
    """One line per row, with the columns below each other. The last column is not padded."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        line = Text()
        for cell, column_width, left in zip(row[:-1], widths, is_left, strict=False):
            padding = " " * (column_width - cell.cell_len)
            line.append_text(cell).append(padding) if left else line.append(padding).append_text(cell)
            line.append(" " * _GAP)
        line.append_text(row[-1])
        line.rstrip()
        lines.append(line)
    return lines


def fitted(line: Text, width: int) -> Text:
    """The line, cut at `width`."""
    line = line.copy()
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line


def _shortest(section: Section, width: int) -> list[Text]:
    return min(section.grid(width), section.table(width), key=len)


def _per_line(cells: Sequence[Text], width: int) -> int:
    cell_width = min(width, max(cell.cell_len for cell in cells))
    return max(1, (width + _GAP) // (cell_width + _GAP))


def _grid(cells: Sequence[Text], width: int) -> list[Text]:
    """The cells side by side in columns of the same width."""
    if not cells:
        return []
    cell_width, per_line = min(width, max(cell.cell_len for cell in cells)), _per_line(cells, width)
    starts = range(0, len(cells), per_line)
    return [fitted(_joined(cells[start : start + per_line], cell_width), width) for start in starts]


def _joined(cells: Sequence[Text], cell_width: int) -> Text:
    line = Text()
    for cell in cells[:-1]:
        line.append_text(cell).append(" " * max(1, cell_width - cell.cell_len + _GAP))
    return line.append_text(cells[-1])
