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
"""

from collections.abc import Iterable
from difflib import get_close_matches


class PacelineError(Exception):
    """Base of everything Paceline raises on purpose. Its text is one printable line, whatever was quoted in it."""

    def __init__(self, line: str) -> None:
        super().__init__("".join(mark if mark.isprintable() else "?" for mark in " ".join(line.split())))


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


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """One line for an unknown name: the nearest ones if any, else all of them."""
    choices = sorted(known)
    near = get_close_matches(name, choices, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(choices)}"
    return f"unknown {kind} '{name}': {hint}"
