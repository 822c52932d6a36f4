"""How precisely the clocks of a run's hosts are known, and what times of different hosts can say about each other.

Times of two hosts are compared only beyond the uncertainty of both clocks; times of one host are always exact.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from paceline.store.events import ClockEvent, JoinedEvent
from paceline.store.run import StoredRun

Uncertainty = Mapping[str, float]
"""By host, the seconds by which its times may be wrong on the run's clock, in either direction; a missing host: 0."""
EXACT: Uncertainty = {}


def clock_uncertainty(run: StoredRun) -> dict[str, float]:
    """The largest uncertainty of each host's clock in a run; empty if all hosts are on one machine, with one clock."""
    if run.header.host_kind.shares_one_machine:
        return {}
    found: dict[str, float] = {}
    events: list[JoinedEvent | ClockEvent] = [*run.all(JoinedEvent), *run.all(ClockEvent)]
    for event in events:
        found[event.host] = max(found.get(event.host, 0.0), event.clock_uncertainty_ns / 1e9)
    return found


def waited_s(uncertainty: Uncertainty, barrier: Sequence[str] = ("step",)) -> pl.Expr:
    """Of rows that each begin when a worker arrives at the barrier of a step: how long it waits for the last worker.

    It is 0 if all workers of other hosts may have arrived at the same time as this one, as far as the clocks can say.
    Rows with the same values in the columns `barrier` belong to one barrier.
    """
    arrived, unknown_s = pl.col("t_s"), _uncertainty_of(pl.col("host"), uncertainty)
    for_own_host = arrived.max().over(*barrier, "host") - arrived
    is_certain = (arrived - unknown_s).max().over(*barrier) > arrived + unknown_s
    return pl.when(is_certain).then(arrived.max().over(*barrier) - arrived).otherwise(for_own_host)


def is_last(arrived: pl.Expr, uncertainty: Uncertainty) -> pl.Expr:
    """Of rows with the arrival of a worker at the barrier of a step: whether it certainly was the last worker.

    Of workers on one host, the last is always known; of those that arrived at the same time, each counts.
    """
    host = pl.col("host")
    unknown_s = _uncertainty_of(host, uncertainty)
    latest_host = host.sort_by(arrived).last().over("step")
    others_latest = pl.when(host != latest_host).then(arrived + unknown_s).max().over("step")
    is_certain = others_latest.is_null() | (arrived - unknown_s >= others_latest)
    return (arrived == arrived.max().over("step")) & is_certain


def _uncertainty_of(host: pl.Expr, uncertainty: Uncertainty) -> pl.Expr:
    if not any(uncertainty.values()):
        return pl.lit(0.0)
    return host.replace_strict(dict(uncertainty), default=0.0, return_dtype=pl.Float64)
