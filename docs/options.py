"""Writes docs/options.md from the options that the spec declares. Run by `make docs`."""

from collections.abc import Iterable
from pathlib import Path

from paceline.spec.experiment import OPTIONS
from paceline.spec.option import Option

PAGE = Path(__file__).with_name("options.md")
_HEAD = """# Options of a run

Written by `make docs` from `src/paceline/spec/experiment.py`; do not edit.

The names are those of a TOML file and of the keyword arguments of `paceline.run(...)`. An option without a flag is
given as `--set name=value`. An option that may be a list is an axis of a sweep: `--batch 10,100` on the command line,
`batch = [10, 100]` in a file and in Python.
"""
_TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_COLUMNS = ("option", "command line", "type", "allowed", "unit", "default", "list", "meaning")


def page() -> str:
    rows = [_row(_COLUMNS), _row("---" for _ in _COLUMNS), *(_row(_cells(option)) for option in OPTIONS.values())]
    return "\n".join([_HEAD, *rows]) + "\n"


def _cells(option: Option) -> tuple[str, ...]:
    return (
        f"`{option.name}`",
        {"argument": "argument", "flag": f"`--{option.label}`", "set": f"`--set {option.name}=`"}[option.cli],
        "list of text" if option.repeatable else _TYPES[option.base_type],
        option.allowed,
        option.unit,
        _default(option),
        "yes" if option.axis else "no",
        option.help.replace("|", "\\|"),
    )


def _default(option: Option) -> str:
    if option.required:
        return "required"
    return option.unset if option.default is None else f"`{option.default_text}`" if option.default_text else "none"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
