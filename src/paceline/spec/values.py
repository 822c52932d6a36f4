"""Checks of option values that types and limits cannot express."""

import re
from collections.abc import Callable

from paceline.errors import SpecError

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")


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
