"""Finds plug-ins: objects that installed packages register under an entry-point group in their pyproject.toml.

Paceline's own engines, kinds of hosts and strategies are found in the same way as those of other packages.
"""

import importlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from paceline.errors import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
_OWN_DISTRIBUTION = "paceline"


class BrokenPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A registered plug-in that is not used."""

    name: str
    distribution: str
    """The package that registers it."""
    reason: str
    """One line that says what is wrong."""


class Plugins(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The plug-ins of one group."""

    found: Mapping[str, T]
    """By name: Paceline's own first, then those of other packages, each part in alphabetical order."""
    broken: tuple[BrokenPlugin, ...] = ()

    @property
    def reasons(self) -> dict[str, str]:
        """Why a name that is registered cannot be used; names that work are not in it."""
        return {one.name: one.reason for one in self.broken if one.name not in self.found}


@cache
def load_plugins(group: str, contract: type[T]) -> Plugins[T]:
    """Every plug-in of a group that is an instance of `contract`. A broken one is reported and does not raise."""
    found: dict[str, T] = {}
    broken = []
    for point in sorted(_registered(group), key=_order):
        try:
            if point.name in found:
                raise ValueError(f"the name '{point.name}' is already taken by another package")
            value = point.load()
            if not isinstance(value, contract):
                raise TypeError(f"{point.value} is a {type(value).__name__}, not a {contract.__name__}")
            if (name := getattr(value, "name", point.name)) != point.name:
                raise ValueError(f"{point.value} calls itself '{name}', and must be registered under that name")
            found[point.name] = value
        except Exception as error:
            reason = one_line(f"{type(error).__name__}: {error}")
            broken.append(BrokenPlugin(name=point.name, distribution=_distribution(point), reason=reason))
    return Plugins(found=found, broken=tuple(broken))


def load_object(reference: str) -> Any:
    """The object that `module:attribute` names, as in pyproject.toml."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def registered_names(group: str) -> frozenset[str]:
    """The names of all plug-ins of a group, also of those that cannot be loaded. Loads none of them."""
    return frozenset(point.name for point in _registered(group))


def _registered(group: str) -> Iterable["EntryPoint"]:
    points: Iterable[EntryPoint] = _all_registered().select(group=group)
    return points


@cache
def _all_registered() -> Any:
    """The entry points of all installed packages, read once: that takes about 12 ms.

    The type of the result differs between versions of Python.
    """
    # Imported here because it takes longer to import than all else that a task needs from this module.
    from importlib.metadata import entry_points

    return entry_points()


def _order(point: "EntryPoint") -> tuple[bool, str]:
    return _distribution(point) != _OWN_DISTRIBUTION, point.name


def _distribution(point: "EntryPoint") -> str:
    return point.dist.name if point.dist else "unknown package"
