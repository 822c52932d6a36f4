"""Checks of option values that types and limits cannot express."""

import re
from collections.abc import Callable

from paceline.errors import SpecError

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_HEAP = re.compile(r"(\d{1,7})([mg])", re.ASCII)
_MIN_HEAP_MIB = 512
"""Spark refuses to start with less than 450 MiB, and some collectors leave less than the whole heap to it."""
_MASTER = re.compile(r"spark://[^\s/]+:\d+|yarn|local\[(\d+|\*)\]", re.ASCII)


def number_as_text(value: object) -> object:
    """A number as text, for options whose type is text but that also accept numbers; other values unchanged."""
    return f"{value:.15g}" if isinstance(value, int | float) else value


def per_host(label: str, read: Callable[[str], object]) -> Callable[[str], None]:
    """A check for text with one value for all hosts, or one value per host separated by spaces; `-` is no limit.

    `read` raises SpecError for a value that is not allowed.
    """

    def check(text: str) -> None:
        words = text.split()
        if not words:
            raise SpecError(f"{label} is empty: give a value, or remove the option")
        for word in words:
            if word != "-":
                read(word)

    return check


def check_name(name: str) -> None:
    if name == "latest":
        raise SpecError("name 'latest' is reserved for the newest run: choose another name")
    if not NAME.fullmatch(name):
        raise SpecError(
            f"name '{name}': must be 1 to 48 characters of a-z, 0-9 and '-', starting with a letter or digit"
        )


def check_directory(path: str) -> None:
    if not path:
        raise SpecError("the runs directory is empty text: name a directory with --runs, or remove the option")


def heap_mib(text: str) -> int:
    """The size of a Java heap in MiB: `2g` -> 2048."""
    match = _HEAP.fullmatch(text.strip().lower())
    size = int(match[1]) * (1024 if match[2] == "g" else 1) if match else 0
    if size < _MIN_HEAP_MIB:
        raise SpecError(f"memory '{text}': must be {_MIN_HEAP_MIB}m or more, e.g. 1g")
    return size


def check_heap(text: str) -> None:
    heap_mib(text)


def check_master(text: str) -> None:
    if not _MASTER.fullmatch(text):
        raise SpecError(f"master '{text}': must be spark://HOST:PORT, yarn or local[N]")


def check_lineage(text: str) -> None:
    if text != "grow" and not (text.isascii() and text.isdigit() and int(text) > 0):
        raise SpecError(f"lineage '{text}': must be grow, or the number of steps between checkpoints, e.g. 20")
