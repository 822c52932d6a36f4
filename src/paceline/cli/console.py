"""Where output goes: tables to stdout, everything else to stderr."""

import sys

from rich.console import Console

_WIDTH_WHEN_PIPED = 160


def output() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_WHEN_PIPED)


def messages() -> Console:
    return Console(file=sys.stderr, highlight=False)
