"""Whether the kind of hosts that a run asks for exists, and supports the limits and faults that it asks for."""

from collections.abc import Mapping

from paceline.errors import PlanError, unknown
from paceline.plan.catalog import Catalog, HostKindFacts
from paceline.spec.fault import HOST_FAULTS
from paceline.spec.hosts import HostsChoice
from paceline.spec.run_options import RunSpec

_LIMITS = ("link", "latency", "cpus")


def hosts_of(spec: RunSpec, catalog: Catalog) -> HostKindFacts:
    """The facts about the kind of hosts; PlanError if it cannot give the run what it asks for."""
    name, argument = HostsChoice.parse(spec.hosts)
    if name in catalog.broken_hosts:
        raise PlanError(f"hosts {name} cannot be loaded: {catalog.broken_hosts[name]}")
    if name not in catalog.hosts:
        raise PlanError(unknown("kind of hosts", name, catalog.hosts))
    kind = catalog.hosts[name]
    if argument is not None and kind.argument is None:
        raise PlanError(f"hosts {name} takes no argument: write --hosts {name} instead of --hosts {spec.hosts}")
    for limit in _LIMITS:
        if getattr(spec, limit) is not None and limit not in kind.limits:
            able = {other: facts for other, facts in catalog.hosts.items() if limit in facts.limits}
            raise _unsupported(f"--{limit}", name, able)
    for fault in spec.fault:
        if fault.kind in HOST_FAULTS and fault.kind not in kind.faults:
            able = {other: facts for other, facts in catalog.hosts.items() if fault.kind in facts.faults}
            raise _unsupported(f"fault '{fault}'", name, able)
    return kind


def _unsupported(what: str, name: str, able: Mapping[str, HostKindFacts]) -> PlanError:
    """`able` are the kinds of hosts that do support it."""
    advice = " or ".join(f"--hosts {other}{_details(facts)}" for other, facts in able.items())
    return PlanError(f"{what} is not supported on hosts {name}: {f'use {advice}' if advice else 'leave it out'}")


def _details(facts: HostKindFacts) -> str:
    argument = f":{facts.argument}" if facts.argument else ""
    return argument + (f" ({facts.needs})" if facts.needs else "")
