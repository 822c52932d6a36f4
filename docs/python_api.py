"""Writes src/paceline/api.py: `paceline.run` with a parameter for each option that the spec declares.

Run by `make docs`.
"""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from paceline.spec.experiment import OPTIONS
from paceline.spec.option import Option

MODULE = Path(__file__).parents[1] / "src" / "paceline" / "api.py"
_WIDTH = 120
_MODULE = '''"""`paceline.run`. Written by `make docs` from spec/run_options.py; do not edit."""

from collections.abc import Mapping, Sequence
from typing import Never

from paceline import pipeline
from paceline.spec.fault import Fault
from paceline.spec.stop import StopRule
from paceline.store.result import Result


def run(
{parameters}
) -> list[Result]:
    """Run an experiment and return the result of each run.

    A list of values makes a sweep of all combinations. Ctrl-C stops the current run, keeps its result on disk and is
    raised here as KeyboardInterrupt.

    Args:
{help}
    """
    fields = locals()
    # Unknown names are refused with the nearest option names, as in a spec file.
    fields |= fields.pop("unknown")
    return pipeline.run_fields(fields)
'''


def module() -> str:
    required = [option for option in OPTIONS.values() if option.required]
    others = [option for option in OPTIONS.values() if not option.required]
    lines = [*map(_parameter, required), "*,", *map(_parameter, others), "**unknown: Never,"]
    return _MODULE.format(
        parameters=textwrap.indent("\n".join(lines), " " * 4),
        help="\n".join(_help(option) for option in OPTIONS.values()),
    )


def _parameter(option: Option) -> str:
    value_type = option.accepts or option.type_
    if not option.axis:
        type_ = _source(value_type)
    elif option.optional:
        type_ = f"{_source(value_type).removesuffix(' | None')} | {_source(Sequence[value_type])} | None"
    else:
        type_ = _source(value_type | Sequence[value_type])
    return f"{option.name}: {type_}," if option.required else f"{option.name}: {type_} = {_default(option)},"


def _source(type_: object) -> str:
    """The source text of a type, without the names of modules."""
    name = type_.__name__ if isinstance(type_, type) and not hasattr(type_, "__args__") else str(type_)
    return re.sub(r"(\w+\.)+", "", name)


def _default(option: Option) -> str:
    if isinstance(option.default, tuple):
        return repr(tuple(map(str, option.default))).replace("'", '"')
    return f'"{option.default}"' if isinstance(option.default, str) else repr(option.default)


def _help(option: Option) -> str:
    allowed = f" Must be {option.allowed}." if option.allowed and not option.choices else ""
    allowed = f" One of {', '.join(option.choices)}." if option.choices else allowed
    default = f" Default: {option.default_text}." if option.default_text else ""
    text = f"{option.name}: {option.help}{allowed}{default}"
    return textwrap.fill(text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
