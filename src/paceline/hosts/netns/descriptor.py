"""The descriptor of the kind of hosts `netns`: each host is a network namespace on this machine."""

from paceline.hosts.base import HostKind, HostRequest, Probe

DESCRIPTOR = HostKind(
    summary="network namespaces on this machine, each with its own link and CPU limit (Linux, root)",
    provider="paceline.hosts.netns.hosts:NetnsHosts",
    needs="Linux, root",
    shares_one_machine=True,
    shares_filesystem=True,
    has_links=True,
    private_network=True,
    limits=frozenset({"link", "latency", "cpus"}),
    # cut: the link carries nothing; limit: another link rate; slow: fewer cores.
    faults=frozenset({"cut", "limit", "slow"}),
    # `paceline doctor` checks whether a host with each of these options could be created here.
    probes=(
        Probe(
            option="--link",
            request=HostRequest(name="h1", link_bits_s=10**9),
            summary="limits the link rate of netns hosts, by tc",
        ),
        Probe(
            option="--cpus",
            request=HostRequest(name="h1", cpus=0.5),
            summary="limits the cores of netns hosts, by cgroup",
        ),
        Probe(
            option="--latency",
            request=HostRequest(name="h1", latency_s=0.001),
            summary="delays what netns hosts send, by netem",
        ),
    ),
)
