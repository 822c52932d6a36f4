"""The kinds of hosts that are installed, by name: Paceline's own and those of other packages."""

from collections.abc import Mapping

from paceline.entry_points import Plugins, load_plugins
from paceline.hosts.base import HostKind, HostProvider
from paceline.spec.hosts import GROUP, HostsChoice


def host_plugins() -> Plugins[HostKind]:
    """All registered kinds, with those that could not be loaded."""
    return load_plugins(GROUP, HostKind)


def host_kinds() -> Mapping[str, HostKind]:
    """Those that could be loaded; they may not work on this machine (`HostProvider.check`)."""
    return host_plugins().found


def host_provider(text: str) -> HostProvider:
    """The provider for `KIND[:ARGUMENT]`."""
    kind, argument = HostsChoice.parse(text)
    return host_kinds()[kind].open_provider(argument)
