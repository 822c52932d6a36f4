"""What a run can choose from on this machine: the catalog that planning reads."""

import sys
from collections.abc import Iterable

from paceline.data import registry as datasets
from paceline.engines.registry import engine_plugins, engines
from paceline.errors import PlanError
from paceline.hosts.base import HostProvider
from paceline.hosts.registry import host_plugins
from paceline.plan.catalog import Catalog, EngineFacts, HostKindFacts, WorkloadFacts
from paceline.spec.hosts import HostsChoice
from paceline.spec.script import target
from paceline.strategies.registry import strategies, strategy_plugins
from paceline.workloads.layers import has_activation
from paceline.workloads.model import metrics_of
from paceline.workloads.registry import WORKLOADS, sizes_of
from paceline.workloads.script import script_path
from paceline.workloads.user_workload import is_user_workload
from paceline.workloads.workload import Workload

_LINUX = sys.platform == "linux"


def catalog(
    workload_names: Iterable[str] = (), hosts: Iterable[str] = (), scripts: Iterable[tuple[str, ...]] = ()
) -> Catalog:
    """The engines, workloads and kinds of hosts of this machine, and those of `workload_names` that are users' own.

    `scripts` are the words of users' scripts. `hosts` are values of the option hosts; their providers say whether the
    network is trusted and its ports restricted.
    """
    providers = _network_providers(hosts)
    users_scripts = {target(argv): {"": _script_facts(argv)} for argv in scripts}
    own = {name: sizes_of(name) for name in workload_names if is_user_workload(name) and name not in users_scripts}
    workloads = {**WORKLOADS, **own}
    if not (engines() and strategies() and host_plugins().found):
        raise PlanError(
            "Paceline's own engines, strategies and kinds of hosts are not registered, because its installation is "
            "incomplete or older than its code: install it again, e.g. with pip install -e ."
        )
    return Catalog(
        engines=_engine_facts(),
        workloads={
            name: {size: _workload_facts(workload) for size, workload in sizes.items()}
            for name, sizes in workloads.items()
        }
        | users_scripts,
        strategies=strategies(),
        hosts=_host_facts(),
        trusted_hosts=frozenset(value for value, provider in providers.items() if provider.trusted_network()),
        restricted_hosts=frozenset(value for value, provider in providers.items() if provider.restricts_ports()),
        broken_engines=engine_plugins().reasons,
        broken_strategies=strategy_plugins().reasons,
        broken_hosts=host_plugins().reasons,
    )


def _engine_facts() -> dict[str, EngineFacts]:
    return {
        name: EngineFacts(
            strategies=engine.strategies,
            installed=engine.installed,
            install_hint=engine.install_hint,
            options=engine.options,
            shares_memory=engine.shares_memory,
            drops_late_gradients=engine.drops_late_gradients,
            any_optimizer=engine.any_optimizer,
            clips_across_servers=engine.clips_across_servers,
            unauthenticated=engine.unauthenticated,
            system_ports=engine.system_ports,
        )
        for name, engine in engines().items()
    }


def _workload_facts(workload: Workload) -> WorkloadFacts:
    return WorkloadFacts(
        train_examples=workload.train_examples,
        engines=frozenset(name for name, engine in engines().items() if engine.can_run(workload)),
        why_not={name: lacks for name, engine in engines().items() if (lacks := engine.lacks(workload))},
        largest_examples=datasets.LARGEST_EXAMPLES.get(workload.dataset or ""),
        metrics=metrics_of(workload.trained_for) | {metric.name for metric in workload.own_metrics},
        evaluates_itself=workload.evaluate is not None,
        has_test=bool(workload.dataset or workload.data or workload.test),
        fixed_examples=workload.dataset is None,
        has_layers=bool(workload.model),
        has_activation=has_activation(workload.model.layers if workload.model else ()),
        takes_order=workload.dataset in datasets.SHUFFLED,
        by_rows=bool(workload.model and workload.model.by_rows),
        training=workload.training,
        parameter_names=tuple(shape.name for shape in workload.model.parameters) if workload.model else (),
        trains=workload.blocks is None,
        parameters=workload.model.size if workload.model else 0,
        linear=bool(workload.model and workload.model.is_linear),
        refused=workload.refused,
    )


def _script_facts(argv: tuple[str, ...]) -> WorkloadFacts:
    script_path(argv)  # Refuses a script that does not exist.
    able = frozenset(name for name, engine in engines().items() if engine.runs_scripts)
    return WorkloadFacts(train_examples=0, engines=able, script=True)


def _host_facts() -> dict[str, HostKindFacts]:
    return {
        name: HostKindFacts(
            argument=kind.argument,
            needs=kind.needs,
            shares_one_machine=kind.shares_one_machine,
            # Tasks find each other's memory through /proc, which only Linux has.
            shares_memory=kind.shares_memory and _LINUX,
            shares_filesystem=kind.shares_filesystem,
            has_links=kind.has_links,
            private_network=kind.private_network,
            limits=frozenset(kind.limits),
            faults=frozenset(kind.faults),
        )
        for name, kind in host_plugins().found.items()
    }


def _network_providers(hosts: Iterable[str]) -> dict[str, HostProvider]:
    """The providers of those hosts whose network other machines can reach; planning refuses hosts that do not exist."""
    providers = {}
    for value in hosts:
        name, argument = HostsChoice.parse(value)
        kind = host_plugins().found.get(name)
        if kind and not kind.private_network and (argument is None or kind.argument is not None):
            providers[value] = kind.open_provider(argument)
    return providers
