"""Curves of a prediction for a page: throughput over the link rate, the number of workers and the batch.

Every curve changes one setting of a measured run and keeps the others. It is plain data, ready for JSON.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from paceline.plan.layout import Layout, parse
from paceline.plan.roles import SERVER, WORKER
from paceline.prediction.cluster import Setup
from paceline.prediction.observe import Observed
from paceline.prediction.predictor import Interval, Predictor

Axis = Literal["link", "workers", "batch"]
_MOST_WORKERS = 8
_LINK_FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_BATCH_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted point of a curve."""

    x: float
    updates_per_s: Interval
    examples_per_s: Interval
    cause: str
    """The predicted bottleneck."""


class MeasuredPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A run that differs from the base in nothing but the setting of the curve."""

    x: float
    updates_per_s: float
    examples_per_s: float
    run: str


class WhatIfCurve(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen if one setting of a run were different."""

    axis: Axis
    unit: str
    base: float
    """The value of the setting in the base run."""
    points: tuple[CurvePoint, ...]
    measured: tuple[MeasuredPoint, ...]


def what_if(base: Observed, runs: Sequence[Observed]) -> list[WhatIfCurve]:
    """The curves around a measured run; `runs` are all runs that predictions may rest on, the base among them.

    A curve is left out if its setting does not exist, such as the link of hosts without a limit.
    """
    predictor = Predictor(base.workload, base.engine, base.transport, runs)
    curves = []
    for axis, unit, values, change in _axes(base.setup):
        points = []
        for value in values:
            found = predictor.predict(change(value))
            points.append(
                CurvePoint(
                    x=value,
                    updates_per_s=found.updates_per_s,
                    examples_per_s=found.examples_per_s,
                    cause=found.bottleneck.cause,
                )
            )
        measured = tuple(_measured(axis, base, runs, change))
        curves.append(
            WhatIfCurve(axis=axis, unit=unit, base=setting(axis, base.setup), points=tuple(points), measured=measured)
        )
    return curves


def _axes(setup: Setup) -> Iterator[tuple[Axis, str, list[float], Callable[[float], Setup]]]:
    link = setting("link", setup)
    if link:
        yield "link", "bit/s", [link * factor for factor in _LINK_FACTORS], lambda rate: with_link(setup, rate)
    if not setup.strategy.single_worker:
        most = max(_MOST_WORKERS, setup.workers)
        yield "workers", "workers", [float(count) for count in range(1, most + 1)], lambda n: with_workers(setup, n)
    batches = sorted({float(max(1, round(setup.batch * factor))) for factor in _BATCH_FACTORS})
    yield "batch", "examples", batches, lambda batch: msgspec.structs.replace(setup, batch=round(batch))


def setting(axis: Axis, setup: Setup) -> float:
    """The value of a setting; the rate of the slowest link, 0 if a link has no known rate."""
    match axis:
        case "link":
            return float(min((limits.link_bits_s or 0 for limits in setup.limits.values()), default=0))
        case "workers":
            return float(setup.workers)
        case "batch":
            return float(setup.batch)


def with_link(setup: Setup, bits_s: float) -> Setup:
    """The same configuration with all links at this rate."""
    limits = {host: msgspec.structs.replace(one, link_bits_s=round(bits_s)) for host, one in setup.limits.items()}
    return msgspec.structs.replace(setup, limits=limits)


def with_workers(setup: Setup, count: float) -> Setup:
    """The same servers, and workers on the same hosts as far as they go; further workers get hosts like the last."""
    hosts = list(dict.fromkeys(place.host for place in setup.places))
    words = dict.fromkeys(hosts, "")
    for place in setup.places:
        words[place.host] += "p" if place.role == SERVER else ""
    worker_hosts = [place.host for place in setup.places if place.role == WORKER]
    for index in range(round(count)):
        host = worker_hosts[index] if index < len(worker_hosts) else f"h{len(words) + 1}"
        words[host] = words.get(host, "") + "w"
    kept = {host: word for host, word in words.items() if word}
    return _laid_out(setup, parse(" ".join(kept.values())), list(kept), worker_hosts[-1])


def _laid_out(setup: Setup, layout: Layout, originals: Sequence[str], like: str) -> Setup:
    """The setup with another layout; a host takes the limits and the machine of its original, or of the host `like`."""
    limits, machine_of = {}, {}
    for host, original in zip(layout.hosts, originals, strict=True):
        source = original if original in setup.limits else like
        limits[host] = msgspec.structs.replace(setup.limits[source], host=host)
        machine_of[host] = setup.machine_of[source]
    if len(setup.machine_cores) > 1:
        # Hosts that are machines of their own: a further host is a further machine.
        cores = {
            host: setup.machine_cores[setup.machine_of.get(original, setup.machine_of[like])]
            for host, original in zip(layout.hosts, originals, strict=True)
        }
        machine_of = {host: host for host in layout.hosts}
    else:
        cores = dict(setup.machine_cores)
    return msgspec.structs.replace(
        setup, places=layout.places(), limits=limits, machine_of=machine_of, machine_cores=cores
    )


def _measured(
    axis: Axis, base: Observed, runs: Sequence[Observed], change: Callable[[float], Setup]
) -> Iterator[MeasuredPoint]:
    for run in runs:
        same_kind = (run.workload, run.engine, run.hosts) == (base.workload, base.engine, base.hosts)
        value = setting(axis, run.setup)
        if same_kind and value and comparable(run.setup) == comparable(change(value)):
            yield MeasuredPoint(
                x=value, updates_per_s=run.updates_per_s, examples_per_s=run.examples_per_s, run=run.run
            )


def comparable(setup: Setup) -> tuple[object, ...]:
    """Equal for equal configurations."""
    limits = sorted((one.host, one.link_bits_s, one.latency_s, one.cpus) for one in setup.limits.values())
    return setup.strategy.name, setup.places, setup.batch, setup.backup, tuple(map(str, limits))
