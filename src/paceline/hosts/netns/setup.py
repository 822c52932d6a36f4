"""Creates the network namespaces of a run with `ip` and `tc`: one per host, and one for the switch that joins them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from paceline.hosts.base import Condition, HostRequest
from paceline.hosts.netns import cgroup, iproute
from paceline.ports import PortRange

_SWITCH = "sw"
_BRIDGE = "bridge0"
RESERVED = frozenset({_SWITCH, _BRIDGE, "lo"})
"""Names that hosts cannot have, because the switch uses them."""
_BURST_S = 0.002  # Shorter than any window that is measured; a smaller burst loses throughput when all cores are busy.
_MIN_BURST_BYTES = 10_000
_MAX_WAIT = "50ms"  # A frame that would have to wait longer in the queue is dropped.


class CreatedHost(msgspec.Struct):
    """A host that exists, with the names needed to change it."""

    name: str
    address: str
    namespace: str
    cgroups: list[str]
    """The cgroup.procs files that its tasks join."""
    switch: str
    """Namespace of the switch, where the host's end of the link has the name of the host."""
    delayed: bool
    """Whether it has a latency: then its rate limit is a child of the delay queue."""
    condition_now: Condition
    ports: PortRange | None = None
    """None: between namespaces there is no firewall."""


def namespaces_of(token: str, requests: Sequence[HostRequest]) -> list[str]:
    return [_namespace(token, name) for name in (_SWITCH, *(host.name for host in requests))]


def cgroups_of(token: str, requests: Sequence[HostRequest]) -> list[str]:
    return [_group(token, host.name) for host in requests if _needs_cgroup(host)]


def build(token: str, requests: Sequence[HostRequest]) -> list[CreatedHost]:
    """Create the switch and the hosts. Nothing of them is visible in the machine's own namespace."""
    switch = _namespace(token, _SWITCH)
    iproute.batch("ip", [f"netns add {name}" for name in namespaces_of(token, requests)])
    cables = [_cable(host.name, _namespace(token, host.name)) for host in requests]
    iproute.batch("ip", [*_bridge(), *(line for lines in cables for line in lines)], namespace=switch)
    created = [_host(token, number, host) for number, host in enumerate(requests, 1)]
    if downlinks := [line for host in requests for line in downlink(host)]:
        iproute.batch("tc", downlinks, namespace=switch)
    return created


def apply_condition(host: CreatedHost, condition: Condition) -> None:
    """Change link and CPU limits of a running host; only what differs is changed."""
    if condition.linked != host.condition_now.linked:
        way = "up" if condition.linked else "down"
        iproute.batch("ip", [f"link set {host.name} {way}"], namespace=host.switch)
    if condition.link_bits_s != host.condition_now.link_bits_s:
        parent = "parent 1:1" if host.delayed else "root"
        iproute.batch("tc", [_change_rate("eth0", parent, condition.link_bits_s)], namespace=host.namespace)
        iproute.batch("tc", [_change_rate(host.name, "root", condition.link_bits_s)], namespace=host.switch)
    if condition.cpus != host.condition_now.cpus:
        hierarchy = cgroup.cpu_hierarchy()
        assert hierarchy, "the host was created with a group"
        for procs in host.cgroups:
            hierarchy.set_cpus(Path(procs).parent, condition.cpus)
    host.condition_now = condition


def _change_rate(device: str, parent: str, bits_s: int | None) -> str:
    if bits_s is None:
        return f"qdisc del dev {device} {parent}"
    return f"qdisc replace dev {device} {parent} handle 10: {_token_bucket(bits_s)}"


def uplink(host: HostRequest) -> list[str]:
    """The `tc` commands inside the host: delay what it sends, then limit its rate."""
    lines, parent = [], "root"
    if host.latency_s:
        lines.append(f"qdisc add dev eth0 root handle 1: netem limit 100000 delay {host.latency_s * 1e6:.0f}us")
        parent = "parent 1:1"
    if host.link_bits_s:
        lines.append(f"qdisc add dev eth0 {parent} handle 10: {_token_bucket(host.link_bits_s)}")
    return lines


def downlink(host: HostRequest) -> list[str]:
    """The `tc` commands at the switch: limit the rate of what the host receives."""
    return [f"qdisc add dev {host.name} root handle 10: {_token_bucket(host.link_bits_s)}"] if host.link_bits_s else []


def _namespace(token: str, name: str) -> str:
    return f"pl-{token}-{name}"


def _group(token: str, name: str) -> str:
    return f"paceline-{token}-{name}"


def _bridge() -> list[str]:
    # With addrgenmode none, interfaces get no IPv6 address and send nothing by themselves, so counters stay exact.
    return [f"link add {_BRIDGE} type bridge mcast_snooping 0", f"link set {_BRIDGE} addrgenmode none up"]


def _cable(name: str, namespace: str) -> list[str]:
    return [
        f"link add {name} type veth peer name eth0 netns {namespace}",
        f"link set {name} addrgenmode none master {_BRIDGE} up",
    ]


def _host(token: str, number: int, host: HostRequest) -> CreatedHost:
    namespace = _namespace(token, host.name)
    address = f"10.80.{number >> 8}.{number & 255}"
    interfaces = ["link set lo up", "link set eth0 addrgenmode none up", f"address add {address}/16 dev eth0"]
    iproute.batch("ip", interfaces, namespace=namespace)
    if lines := uplink(host):
        iproute.batch("tc", lines, namespace=namespace)
    group = _limit(token, host)
    return CreatedHost(
        name=host.name,
        address=address,
        namespace=namespace,
        cgroups=[str(group / "cgroup.procs")] if group else [],
        switch=_namespace(token, _SWITCH),
        delayed=bool(host.latency_s),
        condition_now=Condition(link_bits_s=host.link_bits_s, cpus=host.cpus),
    )


def _needs_cgroup(host: HostRequest) -> bool:
    return host.cpus is not None or "slow" in host.faults


def _limit(token: str, host: HostRequest) -> Path | None:
    hierarchy = cgroup.cpu_hierarchy()
    return hierarchy.make(_group(token, host.name), host.cpus) if hierarchy and _needs_cgroup(host) else None


def _token_bucket(bits_s: int) -> str:
    burst = max(_MIN_BURST_BYTES, round(bits_s / 8 * _BURST_S))
    return f"tbf rate {bits_s}bit burst {burst} latency {_MAX_WAIT}"
