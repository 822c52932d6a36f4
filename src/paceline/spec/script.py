"""A user's own training script: its arguments, with values for the parameters of a sweep."""

import re
import shlex
from collections.abc import Sequence
from itertools import product

from paceline.errors import SpecError

ENGINE = STRATEGY = "user-script"
"""The engine and the strategy of every run of a script."""
MODULE_FLAG = "-m"
"""Before the name of a module, as on Python's own command line."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def check_script(argv: Sequence[str]) -> None:
    """Raise SpecError if the words do not name a script or a module."""
    if argv and not target(argv):
        raise SpecError("the module is missing: write e.g. -m my_package.train")


def is_module(argv: Sequence[str]) -> bool:
    return argv[0] == MODULE_FLAG


def target(argv: Sequence[str]) -> str:
    """The path of the script, or the name of the module."""
    words = argv[1:] if is_module(argv) else argv
    return words[0] if words else ""


def arguments(argv: Sequence[str], values: str | None) -> tuple[str, ...]:
    """What follows the script or the module, with the value of each parameter in the place of {name}."""
    words = argv[2:] if is_module(argv) else argv[1:]
    for name, value in parameters(values or "").items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return tuple(words)


def parameters(text: str) -> dict[str, str]:
    """The values of `bs=32 workers=2` by name."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"param '{text}': {error}; write e.g. bs=32 workers=2") from None
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise SpecError(f"param '{word}' is not of the form name=value: write e.g. bs=32")
        found[name] = value
    return found


def combinations(options: Sequence[str]) -> list[str]:
    """The runs of a sweep: one text of `name=value` words for each combination of the values of `name=a,b` options."""
    lists: dict[str, list[str]] = {}
    for option in options:
        name, equals, values = option.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise SpecError(f"--param '{option}' is not of the form name=value,..: write e.g. --param bs=32,64")
        if name in lists:
            raise SpecError(f"--param {name} is given twice: give all its values in one list, e.g. --param {name}=1,2")
        lists[name] = values.split(",")
    return [
        shlex.join(f"{name}={value}" for name, value in zip(lists, values, strict=True))
        for values in product(*lists.values())
    ]


def check_parameters(argv: Sequence[str], text: str) -> None:
    """Raise SpecError if no argument of the script contains one of the parameters."""
    for name in parameters(text):
        if not any(f"{{{name}}}" in word for word in argv):
            raise SpecError(
                f"param {name} is not used: write {{{name}}} in the arguments of the script, e.g. --{name} {{{name}}}"
            )
