"""The strategies that are installed, by name. A package adds one with an entry point in the group `paceline.strategies`
that refers to a Strategy: `my-strategy = "my_package.my_strategy:DESCRIPTOR"`."""

from collections.abc import Mapping

from paceline.entry_points import Plugins, load_plugins
from paceline.strategies.descriptor import Strategy

GROUP = "paceline.strategies"


def strategy_plugins() -> Plugins[Strategy]:
    """All registered strategies, with those that could not be loaded."""
    return load_plugins(GROUP, Strategy)


def strategies() -> Mapping[str, Strategy]:
    """All descriptors: those with one worker first, then those with servers, then the others.

    No framework is imported: a descriptor's module holds data only.
    """
    return {one.name: one for one in sorted(strategy_plugins().found.values(), key=_order)}


def _order(strategy: Strategy) -> tuple[bool, bool, bool, str]:
    return not strategy.single_worker, not strategy.has_servers, not strategy.synchronous, strategy.name
