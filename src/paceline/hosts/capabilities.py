"""What kinds of hosts and limits this machine can give, as lines for `paceline doctor`."""

from collections.abc import Iterator

import msgspec

from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.registry import HOSTS


class Capability(msgspec.Struct, frozen=True):
    name: str
    works: bool
    detail: str


def capabilities() -> Iterator[Capability]:
    for name, kind in HOSTS.items():
        yield _ability(f"hosts {name}", name, HostRequest(name="h1"), kind.summary)
    yield _ability("--link", "netns", HostRequest(name="h1", link_bits_s=10**9), "link rate of netns hosts, by tc")
    yield _ability("--cpus", "netns", HostRequest(name="h1", cpus=0.5), "CPU share of netns hosts, by cgroup")
    yield _ability("--latency", "netns", HostRequest(name="h1", latency_s=0.001), "delay of netns hosts, by netem")


def _ability(label: str, kind: str, request: HostRequest, summary: str) -> Capability:
    try:
        HOSTS[kind].check([request])
    except HostError as error:
        return Capability(label, False, str(error))
    return Capability(label, True, summary)
