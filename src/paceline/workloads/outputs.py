"""The outputs of users' models: one tensor, or a tuple or dict of tensors."""

from collections.abc import Callable, Mapping
from typing import Any

_NAMES = ("logits", "outputs", "output", "predictions")


def main_output(outputs: Any) -> Any:
    """The tensor that built-in losses and metrics use: `logits` of a dict or else its first value, the first of a
    tuple, or the attribute `logits` of another object."""
    if isinstance(outputs, Mapping):
        named = next((name for name in _NAMES if name in outputs), next(iter(outputs)))
        return outputs[named]
    if isinstance(outputs, tuple | list):
        return outputs[0]
    return getattr(outputs, "logits", outputs)


def map_tensors(convert: Callable[[Any], Any], outputs: Any) -> Any:
    """The same structure with every tensor converted; what is not a tensor is left out of a dict."""
    if isinstance(outputs, Mapping):
        return {name: map_tensors(convert, value) for name, value in outputs.items() if value is not None}
    if isinstance(outputs, tuple | list):
        return tuple(map_tensors(convert, value) for value in outputs)
    return convert(outputs)
