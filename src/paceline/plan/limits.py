"""The limits of each host: `--cpus 0.5` applies to all hosts, `--cpus "0.1 1 -"` has one value per host."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from paceline import units
from paceline.errors import PlanError
from paceline.plan.layout import Layout
from paceline.spec.run_options import RunSpec

Value = TypeVar("Value")
UNLIMITED = "-"
"""Stands for a host without a limit."""


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one host; None is no limit."""

    host: str
    link_bits_s: int | None = None
    latency_s: float | None = None
    cpus: float | None = None


def limits(spec: RunSpec, layout: Layout) -> tuple[HostLimits, ...]:
    """The limits of each host; PlanError if an option has values for more or fewer hosts than the layout has."""
    links = _per_host("link", spec.link, units.bits_per_second, layout)
    latencies = _per_host("latency", spec.latency, units.delay, layout)
    cpus = _per_host("cpus", spec.cpus, units.cpus, layout)
    return tuple(
        HostLimits(host=host, link_bits_s=link, latency_s=latency, cpus=cores)
        for host, link, latency, cores in zip(layout.hosts, links, latencies, cpus, strict=True)
    )


def _per_host(name: str, text: str | None, read: Callable[[str], Value], layout: Layout) -> list[Value | None]:
    if text is None:
        return [None] * len(layout.hosts)
    values = [None if word == UNLIMITED else read(word) for word in text.split()]
    if len(values) == 1:
        return values * len(layout.hosts)
    if len(values) != len(layout.hosts):
        raise PlanError(
            f"--{name} '{text}' has {len(values)} values, but layout '{layout}' has {len(layout.hosts)} hosts: "
            "give one value for all hosts, or one per host"
        )
    return values
