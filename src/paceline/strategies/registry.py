"""The strategies that are installed, by name. A package adds one with an entry point in the group `paceline.strategies`
that refers to a Strategy: `my-strategy = "my_package.my_strategy:DESCRIPTOR"`."""

from collections.abc import Mapping
from functools import cache

from paceline.entry_points import load_group
from paceline.errors import PlanError
from paceline.strategies.descriptor import Strategy

GROUP = "paceline.strategies"


@cache
def strategies() -> Mapping[str, Strategy]:
    """All descriptors: those with one worker first, then those with servers, then the others.

    No framework is imported: a descriptor's module holds data only.
    """
    found = [_checked(name, load()) for name, load in load_group(GROUP).items()]
    return {one.name: one for one in sorted(found, key=_order)}


def _order(strategy: Strategy) -> tuple[bool, bool, bool, str]:
    return not strategy.single_worker, not strategy.has_servers, not strategy.synchronous, strategy.name


def _checked(name: str, found: object) -> Strategy:
    if not isinstance(found, Strategy) or found.name != name:
        raise PlanError(f"entry point '{name}' in {GROUP} is not the Strategy of that name: correct its package")
    return found
