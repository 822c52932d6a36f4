"""Reads arguments of the form OPTION=VALUE,OPTION=VALUE that follow `KIND:` in --hosts."""

from collections.abc import Collection, Iterator

from paceline.errors import HostError, unknown

_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}


def split_at_commas(text: str) -> Iterator[str]:
    """The parts of a list, without the spaces around them. A comma inside of brackets belongs to its part."""
    part, depth = "", 0
    for character in text:
        if character == "," and depth <= 0:
            yield part.strip()
            part = ""
        else:
            depth += _BRACKETS.get(character, 0)
            part += character
    yield part.strip()


def read_options(kind: str, argument: str, known: Collection[str]) -> dict[str, str]:
    """The options by name. A part without `=` continues the value before it, as in `nodelist=n1,n2,partition=cpu`.

    HostError, in one line, if an option is not known, has no value or is given twice.
    """
    options: dict[str, str] = {}
    for part in split_at_commas(argument):
        name, equals, value = part.partition("=")
        if not equals and options and part:
            options[list(options)[-1]] += f",{part}"
            continue
        add_option(kind, options, name.strip(), value.strip(), known)
    return options


def add_option(kind: str, options: dict[str, str], name: str, value: str, known: Collection[str]) -> None:
    """Add an option to those read so far; HostError if that is not possible."""
    if name not in known:
        raise HostError(f"--hosts {kind}: {unknown('option', name, known)}; write --hosts {kind}:OPTION=VALUE,…")
    if not value:
        raise HostError(f"--hosts {kind}: {name} has no value: write {name}=VALUE, or leave it out")
    if name in options:
        raise HostError(f"--hosts {kind}: {name} is given twice: give it once")
    options[name] = value


def yes_or_no(kind: str, name: str, value: str | None) -> bool:
    """The value of an option that is yes or no; no if it is not given."""
    if value not in ("yes", "no", None):
        raise HostError(f"--hosts {kind}: {name} is '{value}': write {name}=yes or {name}=no")
    return value == "yes"
