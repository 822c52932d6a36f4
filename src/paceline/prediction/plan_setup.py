"""Turns planned runs into configurations for the simulation, with the machines and links that runs have measured."""

from collections.abc import Sequence

import msgspec

from paceline.errors import PredictError
from paceline.plan.layout import Layout
from paceline.plan.limits import HostLimits
from paceline.plan.place import RunPlan
from paceline.prediction.cluster import Setup
from paceline.prediction.observe import THIS_MACHINE, Observed, staleness_bound, sync_every
from paceline.strategies.descriptor import Strategy


def fitted_layout(text: str, strategy: Strategy) -> str:
    """A layout for a strategy: without servers if it has none, and with one worker if it has one.

    So one list of layouts serves strategies with and without servers. Names of layouts stay as they are.
    """
    words = text.split()
    if any(set(word) - {"p", "w"} for word in words):
        return text
    if not strategy.has_servers:
        words = [word.replace("p", "") for word in words]
    if strategy.single_worker:
        words = ["w"]
    return str(Layout(tuple(word for word in words if word))) if any(words) else text


def setup_for(plan: RunPlan, runs: Sequence[Observed]) -> Setup:
    """The configuration of a planned run; PredictError if a host was never measured."""
    if plan.spec.compress:
        raise PredictError(
            f"compress={plan.spec.compress} cannot be predicted: measure it with paceline run, or predict without it"
        )
    measured = [run for run in runs if run.hosts.partition(":")[0] == plan.spec.hosts.partition(":")[0]]
    if not plan.shares_one_machine:
        measured = [run for run in measured if run.hosts == plan.spec.hosts]
    hosts = plan.layout.hosts
    cores, limits = {}, {}
    for host, own in zip(hosts, plan.limits, strict=True):
        machine = THIS_MACHINE if plan.shares_one_machine else host
        known = next((run for run in reversed(measured) if machine in run.setup.machine_cores), None)
        if known is None:
            raise PredictError(_never_measured(plan, host))
        cores[machine] = known.setup.machine_cores[machine]
        limits[host] = own if plan.shares_one_machine else _measured_link(own, measured)
    return Setup(
        strategy=plan.strategy,
        places=plan.places,
        batch=plan.spec.batch,
        limits=limits,
        machine_cores=cores,
        machine_of={host: THIS_MACHINE if plan.shares_one_machine else host for host in hosts},
        backup=plan.spec.backup,
        sync_every=sync_every(plan.spec, plan.strategy),
        staleness_bound=staleness_bound(plan.spec, plan.strategy),
        shares=_shares(plan, runs),
    )


def _never_measured(plan: RunPlan, host: str) -> str:
    return (
        f"host {host} of --hosts {plan.spec.hosts} was never measured: make a run on it first, e.g. paceline run "
        f"{plan.spec.workload} --engine {plan.spec.engine} --hosts {plan.spec.hosts} --strategy {plan.strategy.name} "
        f"--layout '{plan.layout}' --stop seconds=4"
    )


def _measured_link(limits: HostLimits, runs: Sequence[Observed]) -> HostLimits:
    """The limits of a host, with the rate and the latency of its link as the newest run measured them."""
    for run in reversed(runs):
        found = run.setup.limits.get(limits.host)
        if found and found.link_bits_s and limits.link_bits_s is None:
            return msgspec.structs.replace(limits, link_bits_s=found.link_bits_s, latency_s=found.latency_s)
    return limits


def _shares(plan: RunPlan, runs: Sequence[Observed]) -> tuple[float, ...]:
    """The part of the parameters on each server, if a run of the workload had as many servers."""
    count = len(plan.servers)
    return next(
        (
            run.setup.shares
            for run in reversed(runs)
            if run.workload == plan.title and run.engine == plan.spec.engine and len(run.setup.shares) == count > 1
        ),
        (),
    )
