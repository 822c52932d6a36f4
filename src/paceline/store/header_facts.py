"""Facts about the engine, the kind of hosts and the strategy that are stored in the header of a run."""

import msgspec

from paceline.engines.registry import engines
from paceline.hosts.registry import host_kinds
from paceline.spec.hosts import HostsChoice
from paceline.strategies.descriptor import Strategy
from paceline.strategies.registry import strategies


class StoredEngine(msgspec.Struct, frozen=True, kw_only=True):
    """The engine of a run, with the facts that the analysis needs."""

    name: str
    version: str | None = None
    """Version of the framework; None if it is not known."""
    splits_parameters_evenly: bool = False
    """Whether each parameter server holds an equal part of the parameters."""
    options: tuple[str, ...] = ()
    """The options that only some engines have and that this one has."""
    evenly_splitting_engines: tuple[str, ...] = ()
    """Other engines that support the run's strategy and split parameters evenly over the servers."""


class StoredHostKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of hosts of a run, with the facts that the analysis needs."""

    name: str
    shares_one_machine: bool = False
    """Whether the tasks of all hosts compete for the cores of one machine, so that more hosts add no cores."""
    has_links: bool = True
    """Whether each host has a network link of its own, which can be saturated."""


def stored_engine(name: str, strategy: str) -> StoredEngine:
    """The facts of an engine for a run with this strategy; only the name if the engine is not installed."""
    if name not in engines():
        return StoredEngine(name=name)
    even = [other for other, one in engines().items() if one.splits_parameters_evenly and strategy in one.strategies]
    return StoredEngine(
        name=name,
        version=engines()[name].version,
        splits_parameters_evenly=engines()[name].splits_parameters_evenly,
        options=tuple(sorted(engines()[name].options)),
        evenly_splitting_engines=tuple(other for other in even if other != name),
    )


def stored_host_kind(hosts: str) -> StoredHostKind:
    """The facts of the kind of hosts in `KIND[:ARGUMENT]`; only the name if the kind is not installed."""
    name = HostsChoice.parse(hosts).kind
    if name not in host_kinds():
        return StoredHostKind(name=name)
    kind = host_kinds()[name]
    return StoredHostKind(name=name, shares_one_machine=kind.shares_one_machine, has_links=kind.has_links)


def alternatives(strategy: Strategy, engine: str) -> tuple[Strategy, ...]:
    """The counterparts of a strategy that an engine supports."""
    supported = engines()[engine].strategies if engine in engines() else frozenset()
    return tuple(strategies()[name] for name in strategy.counterparts if name in supported and name in strategies())
