"""Hosts in a box: a namespace per host and one for the switch that joins them, made with `ip` and `tc`."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from paceline.hosts.base import Condition, HostRequest
from paceline.hosts.netns import cgroup, iproute

_SWITCH = "sw"
_BRIDGE = "bridge0"
RESERVED = frozenset({_SWITCH, _BRIDGE, "lo"})
"""Names a host cannot have, since the switch uses them."""
_BURST_S = 0.002  # small against any window we measure; less loses rate whenever all cores are busy
_MIN_BURST_BYTES = 10_000
_MAX_WAIT = "50ms"  # a frame that would wait longer for its turn is dropped


class CreatedHost(msgspec.Struct):
    """A host as it was made."""

    name: str
    address: str
    namespace: str
    cgroups: list[str]
    """The cgroup.procs files its tasks join."""
    switch: str
    """The namespace of the switch, where its port has its name."""
    delayed: bool
    """Whether what it sends is delayed before it is held to a rate."""
    now: Condition


def namespaces_of(token: str, wanted: Sequence[HostRequest]) -> list[str]:
    return [_namespace(token, name) for name in (_SWITCH, *(host.name for host in wanted))]


def groups_of(token: str, wanted: Sequence[HostRequest]) -> list[str]:
    return [_group(token, host.name) for host in wanted if _has_group(host)]


def build(token: str, wanted: Sequence[HostRequest]) -> list[CreatedHost]:
    """Make the switch and the hosts; nothing of it is seen in the machine's own namespace."""
    switch = _namespace(token, _SWITCH)
    iproute.batch("ip", [f"netns add {name}" for name in namespaces_of(token, wanted)])
    cables = [_cable(host.name, _namespace(token, host.name)) for host in wanted]
    iproute.batch("ip", [*_bridge(), *(line for lines in cables for line in lines)], namespace=switch)
    made = [_host(token, number, host) for number, host in enumerate(wanted, 1)]
    if downlinks := [line for host in wanted for line in downlink(host)]:
        iproute.batch("tc", downlinks, namespace=switch)
    return made


def change(host: CreatedHost, condition: Condition) -> None:
    """Hold a living host to something else; only what differs is touched."""
    if condition.linked != host.now.linked:
        way = "up" if condition.linked else "down"
        iproute.batch("ip", [f"link set {host.name} {way}"], namespace=host.switch)
    if condition.link_bits_s != host.now.link_bits_s:
        place = "parent 1:1" if host.delayed else "root"
        iproute.batch("tc", [_other_rate("eth0", place, condition.link_bits_s)], namespace=host.namespace)
        iproute.batch("tc", [_other_rate(host.name, "root", condition.link_bits_s)], namespace=host.switch)
    if condition.cpus != host.now.cpus:
        hierarchy = cgroup.cpu_hierarchy()
        assert hierarchy, "the host was made with a group"
        for procs in host.cgroups:
            hierarchy.hold(Path(procs).parent, condition.cpus)
    host.now = condition


def _other_rate(device: str, place: str, bits_s: int | None) -> str:
    if bits_s is None:
        return f"qdisc del dev {device} {place}"
    return f"qdisc replace dev {device} {place} handle 10: {_token_bucket(bits_s)}"


def uplink(host: HostRequest) -> list[str]:
    """What `tc` is told inside the host: delay what it sends, then hold it to its rate."""
    lines, place = [], "root"
    if host.latency_s:
        lines.append(f"qdisc add dev eth0 root handle 1: netem limit 100000 delay {host.latency_s * 1e6:.0f}us")
        place = "parent 1:1"
    if host.link_bits_s:
        lines.append(f"qdisc add dev eth0 {place} handle 10: {_token_bucket(host.link_bits_s)}")
    return lines


def downlink(host: HostRequest) -> list[str]:
    """What `tc` is told at the switch: hold what the host receives to its rate."""
    return [f"qdisc add dev {host.name} root handle 10: {_token_bucket(host.link_bits_s)}"] if host.link_bits_s else []


def _namespace(token: str, name: str) -> str:
    return f"pl-{token}-{name}"


def _group(token: str, name: str) -> str:
    return f"paceline-{token}-{name}"


def _bridge() -> list[str]:
    # Without an address of their own (addrgenmode) interfaces send nothing by themselves: counters stay quiet.
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
        now=Condition(link_bits_s=host.link_bits_s, cpus=host.cpus),
    )


def _has_group(host: HostRequest) -> bool:
    return host.cpus is not None or "slow" in host.faults


def _limit(token: str, host: HostRequest) -> Path | None:
    hierarchy = cgroup.cpu_hierarchy()
    return hierarchy.make(_group(token, host.name), host.cpus) if hierarchy and _has_group(host) else None


def _token_bucket(bits_s: int) -> str:
    burst = max(_MIN_BURST_BYTES, round(bits_s / 8 * _BURST_S))
    return f"tbf rate {bits_s}bit burst {burst} latency {_MAX_WAIT}"
