"""Hosts that are only names on this machine."""

from paceline.hosts.base import HostKind

DESCRIPTOR = HostKind(
    summary="plain processes on this machine, connected by shared memory where the engine can, else by loopback",
    provider="paceline.hosts.local.hosts:LocalHosts",
    shares_one_machine=True,
    shares_filesystem=True,
    shares_memory=True,
    private_network=True,
)
