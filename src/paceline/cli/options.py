"""Flags that several commands share, and flags generated from the options that the spec declares."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from paceline.cli import completion
from paceline.spec.experiment import OPTIONS
from paceline.spec.option import Option

DEFAULT_RUNS = OPTIONS["runs"].default
TEXT, NUMBER = "TEXT", "N"
"""How help texts show the value of an option."""
Runs = Annotated[str, typer.Option("--runs", metavar=TEXT, help=OPTIONS["runs"].help)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per run on stdout, a line each.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan without starting a run.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        metavar=NUMBER, help="Serve live metrics for Prometheus on 127.0.0.1 at this port; 0 is any free port."
    ),
]
Ui = Annotated[bool, typer.Option("--ui", help="Serve the live page of the runs on 127.0.0.1, and print its address.")]

FLAGS = tuple(name for name, option in OPTIONS.items() if option.cli == "flag")
LAUNCH_FLAGS = tuple(name for name, option in OPTIONS.items() if option.launch)
SET_ONLY = tuple(name for name, option in OPTIONS.items() if option.cli == "set")
Command = Callable[..., int]
_COMPLETIONS: dict[str, Callable[[str], list[str]]] = {
    "engine": completion.engines,
    "strategy": completion.strategies,
    "layout": completion.layouts,
    "hosts": completion.hosts,
}


def spec_flags(*names: str, overrides: str = "") -> Callable[[Command], Command]:
    """Replace the `**flags` parameter of a command with the flags of these options.

    A flag that was not given has the value None. `overrides` is shown as the default of all these flags, for a command
    whose defaults do not come from the spec.
    """

    def decorate(command: Command) -> Command:
        parameters = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters[1:1] = [_parameter(OPTIONS[name], overrides) for name in names]
        command.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        return command

    return decorate


def given_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the flags that the user gave."""
    return {name: value for name, value in flags.items() if value is not None}


def _parameter(option: Option, overrides: str) -> inspect.Parameter:
    default = f"Default: {overrides or option.default_text}." if overrides or option.default_text else ""
    metavar = NUMBER if option.base_type is int else TEXT
    info = typer.Option(
        f"--{option.name.replace('_', '-')}",
        # A list of values makes a sweep; the values of a repeatable option may contain commas.
        metavar=f"{metavar},.." if option.axis and not option.repeatable else metavar,
        help=f"{option.help} {default}".strip(),
        autocompletion=_COMPLETIONS.get(option.name),
    )
    type_: Any = list[str] if option.repeatable else str if option.axis else option.base_type
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[type_ | None, info]
    )
