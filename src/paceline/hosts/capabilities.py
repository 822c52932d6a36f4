"""Which kinds of hosts, and which of their options, work on this machine."""

from collections.abc import Iterator

import msgspec

from paceline.errors import HostError, one_line
from paceline.hosts.base import HostKind, HostRequest, Probe
from paceline.hosts.registry import host_kinds


class Capability(msgspec.Struct, frozen=True):
    name: str
    works: bool
    detail: str
    """What it does if it works, else why it does not."""


def capabilities() -> Iterator[Capability]:
    """Every kind of hosts, then every option that a kind offers; what needs no argument is tried on this machine."""
    for name, kind in host_kinds().items():
        if kind.argument is None:
            yield _try(kind, Probe(option=f"hosts {name}", request=HostRequest(name="h1"), summary=kind.summary))
        else:
            yield Capability(f"hosts {name}", True, f"{kind.summary} (not tried: --hosts {name}:{kind.argument})")
    for kind in host_kinds().values():
        if kind.argument is None:
            yield from (_try(kind, probe) for probe in kind.probes)


def _try(kind: HostKind, probe: Probe) -> Capability:
    try:
        kind.open_provider().check([probe.request])
    except HostError as error:
        return Capability(probe.option, False, str(error))
    except Exception as error:  # Of a plug-in: the other kinds must still be listed.
        return Capability(probe.option, False, one_line(f"{type(error).__name__}: {error}"))
    return Capability(probe.option, True, probe.summary)
