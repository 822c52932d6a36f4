"""A model given as a function of named values, instead of as layers or as a class of a framework."""

from collections.abc import Callable
from typing import Any

import msgspec

from paceline.workloads.parameters import Parameters


class TensorFunction(msgspec.Struct, frozen=True):
    """For engine tensorflow: the initial values and the function that computes the outputs."""

    first: Callable[[int], Parameters]
    """seed -> initial values by name, as NumPy arrays."""
    outputs: Callable[..., Any]
    """(values by name, *inputs) -> the outputs of the model, one row per example."""
