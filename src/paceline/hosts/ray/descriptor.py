"""The descriptor of the kind of hosts `ray`: nodes of a Ray cluster that exists."""

from paceline.hosts.base import HostKind

DESCRIPTOR = HostKind(
    summary="nodes of an existing Ray cluster",
    provider="paceline.hosts.ray.hosts:RayHosts",
    argument="auto, HOST:PORT or ray://HOST:PORT",
    needs="the package ray and a Ray cluster",
    has_links=True,
)
