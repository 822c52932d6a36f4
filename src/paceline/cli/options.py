"""Options that several verbs share, and flags made from the options that the spec declares."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from paceline.cli import completion
from paceline.spec.experiment import OPTIONS
from paceline.spec.option import Option

DEFAULT_RUNS = OPTIONS["runs"].default
Runs = Annotated[str, typer.Option("--runs", help=OPTIONS["runs"].help)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per run on stdout, a line each.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and start nothing.")]

FLAGS = tuple(name for name, option in OPTIONS.items() if option.cli == "flag")
SET_ONLY = tuple(name for name, option in OPTIONS.items() if option.cli == "set")
Verb = Callable[..., int]
_COMPLETIONS: dict[str, Callable[[str], list[str]]] = {
    "engine": completion.engines,
    "strategy": completion.strategies,
    "layout": completion.layouts,
    "hosts": completion.hosts,
}


def spec_flags(*names: str, overrides: str = "") -> Callable[[Verb], Verb]:
    """Replace the `**flags` of a verb by the flags of these options; None stands for one that was not given.

    `overrides` names what has values of its own, which then take the place of the defaults.
    """

    def decorate(verb: Verb) -> Verb:
        own = [each for each in inspect.signature(verb).parameters.values() if each.kind is not each.VAR_KEYWORD]
        flags = [_parameter(OPTIONS[name], overrides) for name in names]
        own[1:1] = flags
        verb.__signature__ = inspect.Signature(own, return_annotation=int)  # type: ignore[attr-defined]
        return verb

    return decorate


def given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields whose flags were given."""
    return {name: value for name, value in flags.items() if value is not None}


def _parameter(option: Option, overrides: str) -> inspect.Parameter:
    default = f"Default: {overrides or option.default_text}." if overrides or option.default_text else ""
    info = typer.Option(
        f"--{option.label}",
        help=f"{option.help} {default}".strip(),
        autocompletion=_COMPLETIONS.get(option.name),
    )
    kind: Any = list[str] if option.repeatable else str if option.axis else option.base_type
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )
