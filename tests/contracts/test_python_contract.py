"""Names that users import, and the parameters that they call them with, stay."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

import pytest

from contracts.golden import assert_equal, golden


def public_names(module: ModuleType) -> dict[str, list[str]]:
    """The names that a module exports -> the parameters of the function or class, after "*" those given by name."""
    return {name: _parameters(getattr(module, name)) for name in vars(module)["__all__"]}


def _parameters(called: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(called).parameters.values()
    by_position = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    return [*by_position, *(["*", *by_name] if by_name else [])]


def _flat(names: Mapping[str, list[str]]) -> dict[str, str]:
    """Every name, and every parameter of it with how it is given."""
    found = dict.fromkeys(names, "a public name")
    for name, parameters in names.items():
        split = parameters.index("*") if "*" in parameters else len(parameters)
        found |= {f"{name}({one})": f"parameter {number}" for number, one in enumerate(parameters[:split], 1)}
        found |= {f"{name}({one})": "a parameter by name" for one in parameters[split + 1 :]}
    return found


@pytest.mark.parametrize("module", ["paceline", "paceline.layers"])
def test_public_names_and_parameters_match_the_golden_file(module: str) -> None:
    found = public_names(importlib.import_module(module))
    assert_equal("python.toml", _flat(golden("python.toml")[module]), _flat(found))
