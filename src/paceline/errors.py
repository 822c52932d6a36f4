"""Errors a user can cause or must know of.

PacelineError
├── UsageError        refused before anything started (exit 2): one line, what is wrong, what to do
│   ├── SpecError     the request itself is malformed (UserCodeError: a user's own workload is)
│   ├── PlanError     the request is well-formed but cannot work
│   ├── HostError     the hosts asked for cannot be had here
│   ├── DataError     a data set is missing or not what it claims to be
│   ├── StoreError    a run or its directory cannot be read or written
│   └── MetricsError  live metrics cannot be served where they were asked for
└── RunError          a run started and failed (exit 1)
    └── PeersGone     a task's peers are gone: it cannot go on with them, but it could with others
"""

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST_LINE = 1_000


def printable(text: str) -> str:
    """The same with question marks for what a terminal might take for an order; ends of lines and tabs stay."""
    return "".join(mark if mark.isprintable() or mark in "\n\t" else "?" for mark in text)


def one_line(text: str) -> str:
    """Text as one printable line that is not too long to read; what is left out of it is the middle."""
    if len(text) > 2 * _LONGEST_LINE:
        text = f"{text[:_LONGEST_LINE]}{text[-_LONGEST_LINE:]}"
    line = " ".join(text.split())
    if len(line) > _LONGEST_LINE:
        half = _LONGEST_LINE // 2
        line = f"{line[:half]} … {line[-half:]}"
    return printable(line)


class PacelineError(Exception):
    """Base of everything Paceline raises on purpose. Its text is one printable line, whatever was quoted in it."""

    def __init__(self, line: str) -> None:
        super().__init__(one_line(line))


class UsageError(PacelineError):
    """The request was refused before anything started."""


class SpecError(UsageError):
    pass


class UserCodeError(SpecError):
    """A user's own workload cannot be loaded; where that went wrong is worth more than a line."""

    def __init__(self, line: str, traceback: str) -> None:
        super().__init__(line)
        self.traceback = traceback


class PlanError(UsageError):
    pass


class HostError(UsageError):
    pass


class DataError(UsageError):
    pass


class StoreError(UsageError):
    pass


class MetricsError(UsageError):
    pass


class RunError(PacelineError):
    pass


class PeersGone(RunError):
    pass


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """One line for an unknown name: the nearest ones if any, else all of them."""
    choices = sorted(known)
    near = get_close_matches(name, choices, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(choices)}"
    return f"unknown {kind} '{name}': {hint}"
