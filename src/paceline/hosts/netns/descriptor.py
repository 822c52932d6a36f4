"""Hosts that are network namespaces on this machine."""

from paceline.hosts.base import HostKind, HostRequest, Probe

DESCRIPTOR = HostKind(
    summary="network namespaces on this machine, with links and CPU shares of their own (Linux, root)",
    provider="paceline.hosts.netns.hosts:NetnsHosts",
    needs="Linux, root",
    shares_one_machine=True,
    has_links=True,
    limits=frozenset({"link", "latency", "cpus"}),
    faults=frozenset({"cut", "limit", "slow"}),
    probes=(
        Probe(
            option="--link",
            request=HostRequest(name="h1", link_bits_s=10**9),
            summary="link rate of netns hosts, by tc",
        ),
        Probe(
            option="--cpus",
            request=HostRequest(name="h1", cpus=0.5),
            summary="CPU share of netns hosts, by cgroup",
        ),
        Probe(
            option="--latency",
            request=HostRequest(name="h1", latency_s=0.001),
            summary="delay of netns hosts, by netem",
        ),
    ),
)
