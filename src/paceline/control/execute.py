"""Executes one planned run: opens its hosts, connects to their agents and controls the run until it has ended."""

import secrets
from contextlib import ExitStack

import msgspec

from paceline import messages
from paceline.control.cluster import Cluster
from paceline.control.events import End
from paceline.control.interrupts import Interrupts
from paceline.control.links import prepare_links
from paceline.control.liveness import AGENT_LEASE_S
from paceline.control.run_controller import RunController, StateListener
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.hosts.base import HostProvider, HostRequest
from paceline.plan.place import RunPlan
from paceline.preload import preload_of
from paceline.spec.fault import HOST_FAULTS
from paceline.store.header import ResumePoint
from paceline.store.writer import RunWriter

_NO_HOSTS_YET = "interrupted before its hosts were there"


def host_requests(plan: RunPlan) -> list[HostRequest]:
    return [
        HostRequest(
            name=limits.host,
            link_bits_s=limits.link_bits_s,
            latency_s=limits.latency_s,
            cpus=limits.cpus,
            faults=frozenset(fault.kind for fault in plan.spec.fault if fault.host == limits.host) & HOST_FAULTS,
            preload=preload_of(plan.spec.engine),
        )
        for limits in plan.limits
    ]


def execute(
    plan: RunPlan,
    provider: HostProvider,
    data: PreparedData,
    writer: RunWriter,
    listener: StateListener,
    interrupts: Interrupts,
    start: ResumePoint = ResumePoint(),  # noqa: B008  # frozen
) -> End:
    """Execute the run. However it ends, no process is left and its end is stored as an event."""
    token = f"{writer.paths.id[-12:]}-{secrets.token_hex(3)}".strip("-")
    with ExitStack() as stack:
        try:
            with interrupts.raised():
                hosts = stack.enter_context(provider.open(token, host_requests(plan)))
        except KeyboardInterrupt:
            writer.event("ended", status="aborted", reason=_NO_HOSTS_YET)
            return End("aborted", _NO_HOSTS_YET)
        links = prepare_links(plan, hosts, writer.paths.runs, writer.paths.spool / "links")
        for host, capacity in links.capacities.items():
            writer.event("link", host=host, **msgspec.to_builtins(capacity))
        if links.pairs:
            writer.event("links", **msgspec.to_builtins(links))
        sample_hz = plan.spec.sample_hz if plan.spec.record else 0
        distributions = {plan.spec.engine: engines()[plan.spec.engine].distributions}
        setup = messages.Setup("", sample_hz, AGENT_LEASE_S, distributions, hash_code=not plan.shares_filesystem)
        spool = writer.paths.spool.absolute() if plan.shares_filesystem else None
        cluster = Cluster(hosts, writer.paths.logs, spool, setup)
        controller = RunController(plan, data, writer, cluster, hosts, start)
        try:
            end = controller.run(interrupts, listener)
        finally:
            cluster.close()
            controller.drain()
    writer.event("ended", status=end.status, reason=end.reason, refused=end.refused)
    return end
