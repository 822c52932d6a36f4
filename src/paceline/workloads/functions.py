"""A model that is neither layers nor a framework's class: a function of named values."""

from collections.abc import Callable
from typing import Any

import msgspec

from paceline.workloads.parameters import Parameters


class TensorFunction(msgspec.Struct, frozen=True):
    first: Callable[[int], Parameters]
    """seed -> first values by name, as NumPy arrays"""
    outputs: Callable[..., Any]
    """(values by name, *inputs) -> what the model says, one row an example"""
