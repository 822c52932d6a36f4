"""The kinds of hosts by name."""

from paceline.hosts.kind import HostKind
from paceline.hosts.local import LocalHosts
from paceline.hosts.netns import NetnsHosts

HOSTS: dict[str, HostKind] = {"local": LocalHosts(), "netns": NetnsHosts()}
