"""Writes src/paceline/api/run.py: `paceline.run` and `paceline.launch` with a parameter for each option of the spec.

Run by `make docs`.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from paceline.spec.experiment import OPTIONS
from paceline.spec.option import Option

MODULE = Path(__file__).parents[1] / "src" / "paceline" / "api" / "run.py"
_WIDTH = 120
_WORKLOAD = "workload: str | Workload | Sequence[str | Workload],"
_WORKLOAD_HELP = (
    "workload: What to train: a name that `paceline workloads` lists, path/to/file.py, package.module:name, or a "
    "`paceline.Workload`, also one that is defined in a notebook."
)
_COMMON = (
    (
        "check: bool = True,",
        "check: Raise RunFailed if a run fails or diverges. Without it, see `status` of the results.",
    ),
    (
        "progress: bool | None = None,",
        "progress: Whether to show the progress of the runs. Default: in a notebook, and if stderr is a terminal.",
    ),
)
_MODULE = '''"""`paceline.run` and `paceline.launch`. Written by `make docs` from spec/run_options.py; do not edit."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Never

from paceline.api.make_runs import launch_fields, run_fields
from paceline.api.results import Results
from paceline.spec.fault import Fault
from paceline.spec.stop import StopRule
from paceline.workloads.workload import Workload


def run(
{run_parameters}
) -> Results:
    """Run an experiment and return the results of its runs.

    A list of values makes a sweep of all combinations. Ctrl-C stops the current run, keeps its result on disk and is
    raised here as KeyboardInterrupt.

    Args:
{run_help}
    """
    fields = locals()
    # Unknown names are refused with the nearest option names, as in a spec file.
    fields |= fields.pop("unknown")
    return run_fields(fields)


def launch(
{launch_parameters}
) -> Results:
    """Run a training script or function of your own, one rank for each `w` of the layout, and measure it.

    Ranks have the environment variables that torchrun sets. Steps of torch optimizers and of Keras `fit` are observed.

    Args:
{launch_help}
    """
    fields = locals()
    fields |= fields.pop("unknown")
    return launch_fields(fields)
'''
_LAUNCH = (
    (
        "script: str | Path | Callable[..., object],",
        "script: The path of a Python script, the name of a module (with `module=True`), or a function, also one that "
        "is defined in a notebook.",
    ),
    (
        "*arguments: object,",
        "arguments: Arguments of the script, or positional arguments of the function. In those of a script, {name} is "
        "the value of a parameter.",
    ),
    ("module: bool = False,", "module: Whether `script` is the name of a module, as with `python -m`."),
    (
        "param: Mapping[str, object | Sequence[object]] | None = None,",
        "param: Parameters by name; a list of values makes a run for each of them, and for each combination. They "
        "replace {name} in the arguments of a script, and are keyword arguments of a function.",
    ),
)


def module() -> str:
    required = [option for option in OPTIONS.values() if option.required]
    others = [option for option in OPTIONS.values() if not option.required]
    assert [option.name for option in required] == ["workload"]
    # A script ends by itself, so it has no stop rule unless one is given.
    launched = [
        replace(option, default=()) if option.name == "stop" else option for option in OPTIONS.values() if option.launch
    ]
    common = [line for line, _ in _COMMON]
    common_help = [_filled(text) for _, text in _COMMON]
    return _MODULE.format(
        run_parameters=_lines([_WORKLOAD, "*,", *map(_parameter, others), *common, "**unknown: Never,"]),
        run_help="\n".join([_filled(_WORKLOAD_HELP), *map(_help, others), *common_help]),
        launch_parameters=_lines(
            [*(line for line, _ in _LAUNCH), *map(_parameter, launched), *common, "**unknown: Never,"]
        ),
        launch_help="\n".join([*(_filled(text) for _, text in _LAUNCH), *map(_help, launched), *common_help]),
    )


def _lines(lines: Iterable[str]) -> str:
    return textwrap.indent("\n".join(lines), " " * 4)


def _parameter(option: Option) -> str:
    value_type = option.accepts or option.type_
    if not option.axis:
        type_ = _source(value_type)
    elif option.optional:
        type_ = f"{_source(value_type).removesuffix(' | None')} | {_source(Sequence[value_type])} | None"
    else:
        type_ = _source(value_type | Sequence[value_type])
    return f"{option.name}: {type_} = {_default(option)},"


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
    return _filled(f"{option.name}: {option.help}{allowed}{default}")


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
