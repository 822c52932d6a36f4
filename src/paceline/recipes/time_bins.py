"""Divides a training into bins of equal time: throughput and load over time, for published charts over time."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from paceline.store.result import Result
from paceline.store.run import StoredRun

TIME_BINS = 5


def host_time_bins(result: Result, stored: StoredRun) -> Iterator[dict[str, str | float | None]]:
    """A record per host and bin: load from the samples, throughput from the steps of all workers."""
    steps = stored.steps.filter(pl.col("kind") == "step")
    if not len(steps):
        return
    ends = (steps["t_s"] + steps["duration_s"]).to_numpy()
    edges = np.linspace(float(steps["t_s"].min()), float(ends.max()), TIME_BINS + 1)  # type: ignore[arg-type]
    rates = np.histogram(ends, edges)[0] / np.diff(edges)
    workers = len(result.workers) if result.synchronous else 1
    for host in result.hosts:
        samples = stored.samples.filter(pl.col("host") == host.host).sort("t_s")
        load = _load(samples, edges) if len(samples) > 1 else [{} for _ in range(TIME_BINS)]
        for number in range(TIME_BINS):
            begin, end = number * 100 // TIME_BINS, (number + 1) * 100 // TIME_BINS
            yield {
                "host": host.host,
                "time_bin": f"{begin} to {end} %",
                "bin_updates_per_s": float(rates[number]) / workers,
                **load[number],
            }


def _load(samples: pl.DataFrame, edges: np.ndarray) -> list[dict[str, str | float | None]]:
    times = samples["t_s"].to_numpy()
    memory = samples["memory_bytes"].to_numpy()
    rates = {
        "bin_cpu_cores": _rate(samples, "cpu_s", edges),
        "bin_rx_mb_s": _rate(samples, "external_rx_bytes", edges) / 1e6,
        "bin_tx_mb_s": _rate(samples, "external_tx_bytes", edges) / 1e6,
        "bin_disk_read_mb_s": _rate(samples, "disk_read_bytes", edges) / 1e6,
    }
    memory_mb = np.interp(edges[1:], times, memory) / 1e6
    return [
        {**{name: float(values[number]) for name, values in rates.items()}, "bin_memory_mb": float(memory_mb[number])}
        for number in range(TIME_BINS)
    ]


def _rate(samples: pl.DataFrame, counter: str, edges: np.ndarray) -> np.ndarray:
    """Increase of a counter per second between each edge and the next."""
    at_edges = np.interp(edges, samples["t_s"].to_numpy(), samples[counter].cast(pl.Float64).to_numpy())
    rates: np.ndarray = np.diff(at_edges) / np.diff(edges)
    return rates
