"""Consoles for output: tables go to stdout, messages to stderr.

Both replace control characters in text, so that text from users' code and from run directories of other people cannot
send escape sequences to the terminal.
"""

import sys
from typing import TextIO

from rich.console import Console

from paceline.cli.streams import discard
from paceline.terminal.sanitize import sanitized

_WIDTH_WHEN_PIPED = 160
"""Columns when stdout is not a terminal: enough that rich does not cut the tables."""


class _Output(Console):
    """The console for results. If the reader of stdout has ended, as in `paceline ls | head`, the command ends."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Messages(Console):
    """The console for messages. If nobody reads them any more, the command goes on without them."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(sys.stderr)


def output() -> Console:
    """The console for the result of a command, on stdout."""
    console = _Output(highlight=False)
    return sanitized(console if console.is_terminal else _Output(highlight=False, width=_WIDTH_WHEN_PIPED))


def messages(file: TextIO | None = None) -> Console:
    """The console for progress and messages, on stderr unless a file is given."""
    console = _Messages(file=file or sys.stderr, highlight=False, quiet=not (file or sys.stderr))
    # Lines in a file are as long as they are: rich would wrap them at 80 columns.
    console.soft_wrap = not console.is_terminal
    return sanitized(console)


def print_message(line: str) -> None:
    """Print a line for the user on stderr; the line is not wrapped."""
    messages().print(line, markup=False, soft_wrap=True)
