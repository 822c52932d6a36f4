"""Whether a strategy may listen on the network of the hosts: who can connect to it, and on which ports."""

from typing import Literal

from paceline.errors import PlanError
from paceline.plan.catalog import Catalog, HostKindFacts, WorkloadFacts
from paceline.spec.run_options import RunSpec


def trusted_network(spec: RunSpec, catalog: Catalog, kind: HostKindFacts) -> bool:
    """Whether only trusted users can reach the hosts' network: it is private, or the user declared it as trusted."""
    return kind.private_network or spec.trusted_network or spec.hosts in catalog.trusted_hosts


def check_trust(spec: RunSpec, catalog: Catalog, workload: WorkloadFacts, *, trusted: bool) -> None:
    """Raise PlanError if the strategy listens without authentication on a network that is not trusted."""
    why = catalog.engines[spec.engine].unauthenticated.get(spec.strategy)
    if why is None or trusted:
        return
    alternative = _alternative(spec, catalog, workload, "unauthenticated")
    advice = f", or use a strategy with authentication: {alternative}" if alternative else ""
    raise PlanError(
        f"{spec.strategy} on engine {spec.engine} needs a trusted network, because {why}: if only trusted users can "
        f"reach hosts {spec.hosts}, add --trusted-network{advice}"
    )


def check_ports(spec: RunSpec, catalog: Catalog, workload: WorkloadFacts) -> None:
    """Raise PlanError if the strategy cannot keep to the ports on which tasks of the hosts may listen."""
    why = catalog.engines[spec.engine].system_ports.get(spec.strategy)
    if why is None or spec.hosts not in catalog.restricted_hosts:
        return
    alternative = _alternative(spec, catalog, workload, "system_ports")
    advice = f", or use {alternative}" if alternative else ""
    raise PlanError(
        f"{spec.strategy} on engine {spec.engine} cannot keep to the ports of hosts {spec.hosts}, because {why}: "
        f"open all ports between the hosts and remove `ports`{advice}"
    )


def _alternative(
    spec: RunSpec, catalog: Catalog, workload: WorkloadFacts, obstacle: Literal["unauthenticated", "system_ports"]
) -> str:
    """The flags of the strategy with several workers without the obstacle that is most like the run's own, or ''."""
    strategy = catalog.strategies[spec.strategy]

    def unlikeness(pair: tuple[str, str]) -> tuple[bool, bool, bool]:
        name, engine = pair
        other = catalog.strategies[name]
        return name != spec.strategy, other.synchronous != strategy.synchronous, engine != spec.engine

    pairs = [
        (name, engine)
        for engine, facts in catalog.engines.items()
        if facts.installed and engine in workload.engines
        for name in sorted(facts.strategies - getattr(facts, obstacle).keys())
        if name in catalog.strategies
        and not catalog.strategies[name].single_worker
        and not catalog.strategies[name].reason_against(workload.refused)
    ]
    if not pairs:
        return ""
    name, engine = min(pairs, key=unlikeness)
    return f"--strategy {name}" if engine == spec.engine else f"--engine {engine} --strategy {name}"
