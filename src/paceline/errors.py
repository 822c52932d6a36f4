"""The exceptions that a user can cause or must know of; the text of each is one printable line.

PacelineError
├── UsageError        the request was refused before anything started (exit code 2)
│   ├── SpecError     the request itself is malformed (UserCodeError: the user's own workload cannot be loaded)
│   ├── PlanError     the request is well-formed but cannot work
│   ├── HostError     the requested hosts are not available here
│   ├── DataError     a data set is missing, or a file has the wrong content
│   ├── StoreError    a run or its directory cannot be read or written
│   ├── MetricsError  live metrics cannot be served at the requested address
│   ├── PageError     the page cannot be drawn, or cannot be served at the requested address
│   └── PredictError  the stored runs do not allow the requested prediction
└── RunError          a run started and failed (exit code 1)
    ├── PeersGone     a task has lost its peers; it can continue only if it is given new ones
    ├── WorkloadError the user's own model or functions are wrong (exit code 2 if it shows before training begins)
    ├── RunFailed     a run that Python code asked for failed or diverged
    └── ScriptError   a user's script failed or exited with a code other than 0
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

_MAX_LINE_LENGTH = 1_000
_MAX_TEXT_LENGTH = 20_000


def printable(text: str) -> str:
    """The text with control characters, which a terminal could obey, replaced by '?'; line ends and tabs stay."""
    return "".join(character if character.isprintable() or character in "\n\t" else "?" for character in text)


def one_line(text: str) -> str:
    """The text as one printable line; if it is too long, its middle is left out."""
    return printable(" ".join(shorten(text, _MAX_LINE_LENGTH).split()))


_NOTE_LENGTH = 64
"""More than the note has that replaces a part of a text."""


STEP_NOTE = "in step "
"""How the note begins that an exception gets in a training step; the step and its batch follow."""


def shorten(text: str, length: int = _MAX_TEXT_LENGTH) -> str:
    """The text; if it has more than `length` characters and a few, its middle is replaced by a note that says how many.

    A text that was shortened stays as it is if it is shortened again.
    """
    if len(text) <= length + _NOTE_LENGTH:
        return text
    half = length // 2
    return f"{text[:half]} … [{len(text) - 2 * half:,} characters left out] … {text[-half:]}"


def message_of(error: BaseException) -> str:
    """The message of any exception, also of one that cannot be converted to text."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its message cannot be shown: __str__ raises {type(failure).__name__})"


class PacelineError(Exception):
    """Base class of everything Paceline raises on purpose. Its text is one printable line, whatever text it quotes."""

    def __init__(self, line: str) -> None:
        super().__init__(one_line(line))


class UsageError(PacelineError):
    """The request was refused before anything started."""


class SpecError(UsageError):
    pass


class UserCodeError(SpecError):
    """A user's own workload cannot be loaded; `traceback` shows where in the user's code."""

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


class PageError(UsageError):
    pass


class PredictError(UsageError):
    pass


class RunError(PacelineError):
    pass


class PeersGone(RunError):
    pass


class WorkloadError(RunError):
    """The model or a function of the user's own workload is wrong."""


class RunFailed(RunError):
    """A run of `paceline.run` failed or diverged. `results` has the results of all runs, also of successful ones."""

    def __init__(self, line: str, results: Sequence[Any]) -> None:
        super().__init__(line)
        self.results = results


class ScriptError(RunError):
    """A user's script failed; `traceback` begins in the user's code. Its cause is the exception of the script."""

    def __init__(self, line: str, traceback: str) -> None:
        super().__init__(line)
        self.traceback = traceback


def unknown(kind: str, name: str, known: Iterable[str], *, most: int | None = None) -> str:
    """The error line for an unknown name, with the most similar known names, or all of them if none is similar.

    With `most`, only that many are listed, the last ones, and the others are counted.
    """
    names = list(known)
    near = get_close_matches(name, sorted(names), n=3, cutoff=0.5)
    shown = names if most is None else names[-most:]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(sorted(shown))}{more}"
    return f"unknown {kind} '{name}': {hint}"
