"""A training cut into parts of equal time: how pace and load changed on the way, as a figure over time shows it."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from paceline.store.result import Result
from paceline.store.run import StoredRun

TIME_BINS = 5


def host_time_bins(result: Result, stored: StoredRun) -> Iterator[dict[str, str | float | None]]:
    """A record for each host and part: load from the samples, pace from the steps of all workers."""
    steps = stored.steps.filter(pl.col("kind") == "step")
    if not len(steps):
        return
    ends = (steps["t_s"] + steps["duration_s"]).to_numpy()
    edges = np.linspace(float(steps["t_s"].min()), float(ends.max()), TIME_BINS + 1)  # type: ignore[arg-type]
    made = np.histogram(ends, edges)[0] / np.diff(edges)
    workers = len(result.workers) if result.synchronous else 1
    for host in result.hosts:
        samples = stored.samples.filter(pl.col("host") == host.host).sort("t_s")
        load = _load(samples, edges) if len(samples) > 1 else [{} for _ in range(TIME_BINS)]
        for part in range(TIME_BINS):
            begin, end = part * 100 // TIME_BINS, (part + 1) * 100 // TIME_BINS
            yield {
                "host": host.host,
                "part": f"{begin} to {end} %",
                "part_updates_per_s": float(made[part]) / workers,
                **load[part],
            }


def _load(samples: pl.DataFrame, edges: np.ndarray) -> list[dict[str, str | float | None]]:
    times = samples["t_s"].to_numpy()
    memory = samples["memory_bytes"].to_numpy()
    rates = {
        "part_cpu_cores": _rate(samples, "cpu_s", edges),
        "part_rx_mb_s": _rate(samples, "external_rx_bytes", edges) / 1e6,
        "part_tx_mb_s": _rate(samples, "external_tx_bytes", edges) / 1e6,
        "part_disk_read_mb_s": _rate(samples, "disk_read_bytes", edges) / 1e6,
    }
    held = np.interp(edges[1:], times, memory) / 1e6
    return [
        {**{name: float(values[part]) for name, values in rates.items()}, "part_memory_mb": float(held[part])}
        for part in range(TIME_BINS)
    ]


def _rate(samples: pl.DataFrame, counter: str, edges: np.ndarray) -> np.ndarray:
    """Growth of a counter per second, between one edge and the next."""
    at_edges = np.interp(edges, samples["t_s"].to_numpy(), samples[counter].cast(pl.Float64).to_numpy())
    rates: np.ndarray = np.diff(at_edges) / np.diff(edges)
    return rates
