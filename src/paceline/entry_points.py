"""What installed packages offer under an entry-point group: found once per process, loaded when it is used."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from paceline.errors import PlanError


@cache
def load_group(group: str) -> Mapping[str, Callable[[], Any]]:
    """By name, a function that imports and returns what the entry point refers to.

    The metadata of all installed packages is read, which takes some 25 ms: call this where the names are needed, not at
    import. Two packages that offer different objects under one name are a PlanError.
    """
    found: dict[str, Any] = {}
    for point in sorted(entry_points(group=group), key=lambda one: one.name):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise PlanError(
                f"two installed packages offer '{point.name}' in {group} ({other.value} and {point.value}): remove one"
            )
    return {name: point.load for name, point in found.items()}
