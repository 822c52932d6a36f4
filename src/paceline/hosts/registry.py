"""The kinds of hosts by name."""

from paceline.hosts.base import HostKind
from paceline.hosts.local.hosts import LocalHosts
from paceline.hosts.netns.hosts import NetnsHosts

HOSTS: dict[str, HostKind] = {"local": LocalHosts(), "netns": NetnsHosts()}
