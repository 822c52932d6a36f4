"""The names that users import, and their parameters, do not change."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

import pytest

from contracts.golden import assert_equal, golden


def public_names(module: ModuleType) -> dict[str, list[str]]:
    """The exported names of a module with their parameters; keyword-only parameters follow "*"."""
    return {name: _parameters(getattr(module, name)) for name in vars(module)["__all__"]}


RETURNED = ("ReproducedTable", "Results", "RunComparison", "RunResult")
"""Classes that users do not make themselves: their own properties and methods are listed instead of parameters."""


def _parameters(function: Callable[..., object]) -> list[str]:
    if getattr(function, "__name__", "") in RETURNED:
        fields = getattr(function, "__struct_fields__", ())  # The JSON contract covers these.
        return ["*", *sorted(name for name in vars(function) if not name.startswith("_") and name not in fields)]
    parameters = inspect.signature(function).parameters.values()
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [*by_position, *(["*", *by_name] if by_name else [])]


def _flat(names: Mapping[str, list[str]]) -> dict[str, str]:
    """Each name and each of its parameters, with a description to compare."""
    entries = dict.fromkeys(names, "a public name")
    for name, parameters in names.items():
        split = parameters.index("*") if "*" in parameters else len(parameters)
        entries |= {
            f"{name}({parameter})": f"parameter {number}" for number, parameter in enumerate(parameters[:split], 1)
        }
        entries |= {f"{name}({parameter})": "a keyword-only parameter" for parameter in parameters[split + 1 :]}
    return entries


@pytest.mark.parametrize("module", ["paceline", "paceline.layers", "paceline.observe"])
def test_public_names_and_parameters_match_the_golden_file(module: str) -> None:
    actual = public_names(importlib.import_module(module))
    assert_equal("python.toml", _flat(golden("python.toml")[module]), _flat(actual))
