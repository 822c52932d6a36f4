"""Where output goes: tables to stdout, everything else to stderr. Nothing shown can give the terminal orders."""

import sys
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment

from paceline.errors import printable

_WIDTH_WHEN_PIPED = 160


def output() -> Console:
    console = Console(highlight=False)
    return _guarded(console if console.is_terminal else Console(highlight=False, width=_WIDTH_WHEN_PIPED))


def messages(file: TextIO | None = None) -> Console:
    return _guarded(Console(file=file or sys.stderr, highlight=False))


def _guarded(console: Console) -> Console:
    console.push_render_hook(_Guard())
    return console


class _Guard(RenderHook):
    """Names, reasons and tracebacks come from users' code and from run directories of others; rich passes on what
    escapes there are in them."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(one) for one in renderables]


class _Printable:
    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._shown, options):
            # Colours are not yet escapes here, and what moves the cursor is marked as control.
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
