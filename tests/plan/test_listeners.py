"""What may listen on the hosts' network: only a trusted one for all that connect, and only on the hosts' ports."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from paceline import available
from paceline.engines.registry import engines
from paceline.entry_points import Plugins
from paceline.errors import PlanError
from paceline.hosts.base import Host, HostKind, HostProvider, HostRequest
from paceline.plan.catalog import Catalog, EngineFacts, HostKindFacts, WorkloadFacts
from paceline.plan.place import RunPlan, place
from paceline.spec.load import experiment
from paceline.spec.sweep import expand, key
from paceline.strategies.registry import strategies

_OPEN = "its servers accept any connection"
_ANY_PORT = "the system chooses its ports"
_STRATEGIES = frozenset({"single", "ps-sync", "ps-async", "allreduce"})
CATALOG = Catalog(
    engines={
        "torch": EngineFacts(
            strategies=_STRATEGIES,
            installed=True,
            install_hint="",
            unauthenticated={"allreduce": _OPEN},
            system_ports={"allreduce": _ANY_PORT},
        ),
        "open": EngineFacts(
            strategies=_STRATEGIES,
            installed=True,
            install_hint="",
            unauthenticated=dict.fromkeys(_STRATEGIES - {"single"}, _OPEN),
        ),
    },
    workloads={
        "logreg": {"": WorkloadFacts(train_examples=60_000, engines=frozenset({"torch", "open"}))},
        "open-only": {"": WorkloadFacts(train_examples=60_000, engines=frozenset({"open"}))},
    },
    strategies=strategies(),
    hosts={"here": HostKindFacts(private_network=True), "net": HostKindFacts(argument="FILE")},
    trusted_hosts=frozenset({"net:trusted.toml", "net:firewall.toml"}),
    restricted_hosts=frozenset({"net:firewall.toml"}),
)


def make_plan(**fields: Any) -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", "engine": "torch", "strategy": "allreduce", **fields}))
    return place(spec, CATALOG)


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({}, ", or use a strategy with authentication: --strategy ps-sync"),
        (
            {"engine": "open", "strategy": "ps-async"},
            ", or use a strategy with authentication: --engine torch --strategy ps-async",
        ),
        ({"engine": "open"}, ", or use a strategy with authentication: --engine torch --strategy ps-sync"),
        ({"workload": "open-only", "engine": "open"}, ""),
    ],
)
def test_open_strategy_on_an_untrusted_network_is_refused_with_both_remedies(
    fields: dict[str, Any], advice: str
) -> None:
    with pytest.raises(PlanError) as refusal:
        make_plan(hosts="net:a,b", **fields)
    engine, strategy = fields.get("engine", "torch"), fields.get("strategy", "allreduce")
    assert str(refusal.value) == (
        f"{strategy} on engine {engine} needs a trusted network, because {_OPEN}: if only trusted users can reach "
        f"hosts net:a,b, add --trusted-network{advice}"
    )


@pytest.mark.parametrize(
    "fields",
    [{"hosts": "here"}, {"hosts": "net:trusted.toml"}, {"hosts": "net:a,b", "trusted_network": True}],
)
def test_private_and_declared_networks_are_trusted(fields: dict[str, Any]) -> None:
    assert make_plan(**fields).trusted_network


def test_strategy_with_authentication_runs_on_any_network() -> None:
    assert not make_plan(hosts="net:a,b", strategy="ps-sync").trusted_network


def test_declaring_the_network_as_trusted_makes_no_other_run() -> None:
    assert key(make_plan(hosts="here").spec) == key(make_plan(hosts="here", trusted_network=True).spec)


def test_strategy_that_cannot_keep_to_the_ports_is_refused() -> None:
    with pytest.raises(PlanError) as refusal:
        make_plan(hosts="net:firewall.toml")
    assert str(refusal.value) == (
        f"allreduce on engine torch cannot keep to the ports of hosts net:firewall.toml, because {_ANY_PORT}: open all "
        "ports between the hosts and remove `ports`, or use --engine open --strategy allreduce"
    )
    make_plan(hosts="net:firewall.toml", strategy="ps-sync")
    make_plan(hosts="net:trusted.toml")


def test_engines_name_only_strategies_that_they_have() -> None:
    for name, engine in engines().items():
        assert engine.unauthenticated.keys() | engine.system_ports.keys() <= engine.strategies, name


class _Inventory(HostProvider):
    """A provider whose argument says what holds for its network, as an inventory would."""

    def __init__(self, argument: str | None) -> None:
        self._argument = argument

    def check(self, requests: Sequence[HostRequest]) -> None:
        pass

    def open(self, token: str, requests: Sequence[HostRequest]) -> AbstractContextManager[Sequence[Host]]:
        return nullcontext(())

    def trusted_network(self) -> bool:
        return self._argument == "trusted"

    def restricts_ports(self) -> bool:
        return self._argument == "firewall"


def test_provider_is_asked_about_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = HostKind(summary="", provider=f"{__name__}:_Inventory", argument="FILE")
    private = HostKind(summary="", provider="nowhere:Provider", private_network=True)
    kinds = Plugins(found={"net": kind, "here": private})
    monkeypatch.setattr(available, "host_plugins", lambda: kinds)
    choices = available.catalog(hosts=["net:trusted", "net:firewall", "here", "unknown", "here:x"])
    assert choices.trusted_hosts == {"net:trusted"}
    assert choices.restricted_hosts == {"net:firewall"}
