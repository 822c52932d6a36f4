"""Looks at the hosts of a kind without training: software, cores, memory, addresses and clocks of each."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from paceline import messages
from paceline.control.cluster import AgentClosed, Clock, Cluster
from paceline.control.probe_links import PROBE_ERRORS, Link, Probes
from paceline.engines.base import Engine
from paceline.errors import HostError
from paceline.hosts.base import Host

_TIMEOUT_S = 60.0


class InspectedHost(msgspec.Struct, frozen=True, kw_only=True):
    """What one host said, or why it said nothing."""

    host: str
    address: str
    hello: messages.Hello | None = None
    clock: Clock | None = None
    error: str | None = None


def inspect_links(hosts: Sequence[Host], scratch: Path) -> tuple[list[Link], str | None]:
    """The links between the hosts, and why they could not be measured or which hosts cannot reach each other."""
    try:
        with Probes(hosts, scratch / "links") as probes:
            probes.check_reachable()
            return probes.measure(one_machine=False), None
    except HostError as error:
        return [], str(error)
    except PROBE_ERRORS as error:
        return [], f"the links between the hosts could not be measured: {error}"


def inspect_hosts(hosts: Sequence[Host], engines: Mapping[str, Engine], scratch: Path) -> list[InspectedHost]:
    """Start an agent on each host and ask it; `scratch` is an empty directory for the agents' logs."""
    setup = messages.Setup(
        "",
        sample_hz=0,
        lease_s=2 * _TIMEOUT_S,
        engines={name: engine.distributions for name, engine in engines.items()},
        hash_code=True,
    )
    found = {host.name: InspectedHost(host=host.name, address=host.address) for host in hosts}
    cluster = Cluster(hosts, scratch, None, setup)
    try:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while any(not host.hello and not host.error for host in found.values()):
            received = cluster.next(timeout_s=max(0.0, deadline_s - time.monotonic()))
            if received is None:
                break
            known = found[received.host]
            if isinstance(received, AgentClosed):
                found[received.host] = msgspec.structs.replace(known, error=known.error or received.detail)
            elif isinstance(received.message, messages.Hello):
                clock = cluster.measure_clock(received.host)
                found[received.host] = msgspec.structs.replace(known, hello=received.message, clock=clock)
    finally:
        cluster.close()
    late = f"no answer within {_TIMEOUT_S:.0f} s"
    return [
        host if host.hello or host.error else msgspec.structs.replace(host, error=late)
        for host in (found[host.name] for host in hosts)
    ]
