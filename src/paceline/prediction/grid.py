"""Predictions for every combination of some link rates, numbers of workers and batches around a measured run.

A page lets its readers move over the grid with sliders. It is plain data, ready for JSON.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import product

import msgspec

from paceline.prediction.cluster import Setup
from paceline.prediction.curves import comparable, setting, with_link, with_workers
from paceline.prediction.observe import Observed
from paceline.prediction.predictor import Predictor

_LINK_FACTORS = (0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_WORKERS = (1, 2, 3, 4, 6, 8)
_BATCH_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_MOST_VALUES = 8
"""Of one axis, with those of the measured runs."""
_STEPS = 20
"""Simulated steps of each worker. The curves differ from those with more steps by about a hundredth."""
NO_LIMIT = 0.0
"""The link rate of hosts whose links have no known rate."""


class GridPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted configuration. `low` and `high` are the ends of the 80 % interval of updates_per_s."""

    updates_per_s: float
    low: float
    high: float
    examples_per_update: float
    cause: str


class MeasuredConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A run that differs from the base in nothing but link, workers and batch."""

    link: float
    workers: int
    batch: int
    updates_per_s: float
    examples_per_s: float
    run: str


class WhatIfGrid(msgspec.Struct, frozen=True, kw_only=True):
    base: MeasuredConfiguration
    links: tuple[float, ...]
    """In bit/s; only `NO_LIMIT` if the links of the base have no known rate."""
    workers: tuple[int, ...]
    batches: tuple[int, ...]
    points: tuple[GridPoint | None, ...]
    """For each link, for each number of workers, for each batch; None if there was no time to predict it."""
    measured: tuple[MeasuredConfiguration, ...]


def what_if_grid(
    base: Observed,
    runs: Sequence[Observed],
    budget_s: float,
    clock: Callable[[], float] = time.process_time,
) -> WhatIfGrid:
    """The grid around a measured run, predicted from `runs`, among them the base.

    Configurations like the base come first: those that are left when `budget_s` of CPU time are spent are None.
    """
    end_s = clock() + budget_s
    predictor = Predictor(base.workload, base.engine, base.transport, runs)
    measured = tuple(_measured(base, runs))
    links, workers, batches = _axes(base.setup, measured)
    points: dict[tuple[float, int, int], GridPoint] = {}
    places = list(product(links, workers, batches))
    for place in sorted(places, key=lambda place: _distance(place, base.setup, (links, workers, batches))):
        if points and clock() > end_s:
            break
        found = predictor.predict(_changed(base.setup, *place), seeds=1, steps=_STEPS)
        points[place] = GridPoint(
            updates_per_s=found.updates_per_s.value,
            low=found.updates_per_s.low,
            high=found.updates_per_s.high,
            examples_per_update=found.examples_per_s.value / found.updates_per_s.value,
            cause=found.bottleneck.cause,
        )
    return WhatIfGrid(
        base=_configuration(base),
        links=links,
        workers=workers,
        batches=batches,
        points=tuple(points.get(place) for place in places),
        measured=measured,
    )


def _axes(
    setup: Setup, measured: Iterable[MeasuredConfiguration]
) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    link, found = setting("link", setup), list(measured)
    links = [round(link * factor) for factor in _LINK_FACTORS] if link else [NO_LIMIT]
    workers = [1] if setup.strategy.single_worker else [setup.workers, *_WORKERS]
    batches = [max(1, round(setup.batch * factor)) for factor in _BATCH_FACTORS]
    return (
        tuple(map(float, _values(link, links, (one.link for one in found)))),
        tuple(map(int, _values(setup.workers, workers, (one.workers for one in found)))),
        tuple(map(int, _values(setup.batch, batches, (one.batch for one in found)))),
    )


def _values(base: float, usual: Iterable[float], measured: Iterable[float]) -> list[float]:
    """The base, the measured values and the usual ones, without those that are too many."""
    return sorted(list(dict.fromkeys([base, *measured, *usual]))[:_MOST_VALUES])


def _changed(setup: Setup, link: float, workers: int, batch: int) -> Setup:
    setup = with_workers(setup, workers) if workers != setup.workers else setup
    setup = with_link(setup, link) if link != setting("link", setup) else setup
    return msgspec.structs.replace(setup, batch=batch)


def _distance(place: Sequence[float], setup: Setup, axes: Sequence[Sequence[float]]) -> tuple[int, int]:
    """First all configurations in which only one setting differs from the base, then those in which several do."""
    base = (setting("link", setup), setup.workers, setup.batch)
    steps = [abs(axis.index(here) - axis.index(there)) for here, there, axis in zip(place, base, axes, strict=True)]
    return sum(step > 0 for step in steps) > 1, sum(steps)


def _measured(base: Observed, runs: Iterable[Observed]) -> Iterable[MeasuredConfiguration]:
    for run in runs:
        one = _configuration(run)
        same_kind = (run.workload, run.engine, run.hosts) == (base.workload, base.engine, base.hosts)
        if same_kind and comparable(run.setup) == comparable(_changed(base.setup, one.link, one.workers, one.batch)):
            yield one


def _configuration(run: Observed) -> MeasuredConfiguration:
    return MeasuredConfiguration(
        link=setting("link", run.setup),
        workers=run.setup.workers,
        batch=run.setup.batch,
        updates_per_s=run.updates_per_s,
        examples_per_s=run.examples_per_s,
        run=run.run,
    )
