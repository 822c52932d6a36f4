"""What each host is held to: `--cpus 0.5` holds for all, `--cpus "0.1 1 -"` has a word for each host of the layout."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from paceline import units
from paceline.errors import PlanError
from paceline.plan.layout import Layout
from paceline.spec.experiment import RunSpec

Value = TypeVar("Value")
UNLIMITED = "-"


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    link_bits_s: int | None = None
    latency_s: float | None = None
    cpus: float | None = None


def limits(spec: RunSpec, layout: Layout) -> tuple[HostLimits, ...]:
    """Of each host; PlanError if there are words for more or fewer hosts than the layout has."""
    links = _per_host("link", spec.link, units.bits_per_second, layout)
    latencies = _per_host("latency", spec.latency, units.delay, layout)
    cpus = _per_host("cpus", spec.cpus, units.cpus, layout)
    return tuple(
        HostLimits(host=host, link_bits_s=link, latency_s=latency, cpus=share)
        for host, link, latency, share in zip(layout.hosts, links, latencies, cpus, strict=True)
    )


def _per_host(name: str, asked: str | None, read: Callable[[str], Value], layout: Layout) -> list[Value | None]:
    if asked is None:
        return [None] * len(layout.hosts)
    found = [None if word == UNLIMITED else read(word) for word in asked.split()]
    if len(found) == 1:
        return found * len(layout.hosts)
    if len(found) != len(layout.hosts):
        raise PlanError(
            f"--{name} '{asked}' is for {len(found)} hosts, layout '{layout}' has {len(layout.hosts)}: "
            "give one value for all, or one for each"
        )
    return found
