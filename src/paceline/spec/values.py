"""Checks of single values that types and bounds cannot express."""

import re
from collections.abc import Callable

from paceline.errors import SpecError

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")


def number_as_text(value: object) -> object:
    """A number as text, for options that take text with a number in it; anything else as it is."""
    return f"{value:.15g}" if isinstance(value, int | float) else value


def per_host(label: str, read: Callable[[str], object]) -> Callable[[str], None]:
    """A check of one value for all hosts, or one word for each host, where `-` is no limit."""

    def check(text: str) -> None:
        words = text.split()
        if not words:
            raise SpecError(f"{label} is empty: give a value, or leave it out")
        for word in words:
            if word != "-":
                read(word)

    return check


def check_name(name: str) -> None:
    if name == "latest":
        raise SpecError("name 'latest' means the newest run: choose another")
    if not NAME.fullmatch(name):
        raise SpecError(f"name '{name}': use 1 to 48 of a-z, 0-9 and '-', starting with a letter or digit")


def check_directory(path: str) -> None:
    if not path:
        raise SpecError("the runs directory has no name: give one with --runs, or leave it out")
