"""Time series of a run for charts: steps and samples on one clock, reduced to a drawable number of points."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from paceline.analyze.clocks import EXACT, Uncertainty
from paceline.analyze.phases import split_wait_from
from paceline.recording.layout import TIMED_NAMES

COUNTERS = {
    "cpu_cores": ("cpu_s", 1.0),
    "external_rx_mb_s": ("external_rx_bytes", 1e6),
    "external_tx_mb_s": ("external_tx_bytes", 1e6),
    "loopback_rx_mb_s": ("loopback_rx_bytes", 1e6),
    "loopback_tx_mb_s": ("loopback_tx_bytes", 1e6),
    "disk_read_mb_s": ("disk_read_bytes", 1e6),
    "disk_write_mb_s": ("disk_write_bytes", 1e6),
}
"""Rate name -> (cumulative counter that it is computed from, counts per unit)."""


class Window(msgspec.Struct, frozen=True):
    """A part of a run that is shown step by step."""

    name: str
    start_s: float
    end_s: float


def host_rates(samples: pl.DataFrame) -> pl.DataFrame:
    """One row per sample of each host except the first: rates since the previous sample, and current memory."""
    elapsed = pl.col("t_s").diff().over("host")
    rates = [
        (pl.col(counter).cast(pl.Float64).diff().over("host") / elapsed / unit).alias(name)
        for name, (counter, unit) in COUNTERS.items()
    ]
    table = samples.sort("host", "t_s").with_columns(elapsed=elapsed)
    memory = (pl.col("memory_bytes") / 1e6).alias("memory_mb")
    return (
        table.with_columns(*rates, memory)
        .filter(pl.col("elapsed") > 0)
        .select("host", "t_s", "memory_mb", *COUNTERS)
    )  # fmt: skip


def use_per_step(samples: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Each step with the resource use of its host meanwhile. Counters are interpolated linearly between samples."""
    complete = steps.filter(pl.col("kind") == "step").select("task", "host", "step", "update", "t_s", "duration_s")
    parts = []
    for (host,), own in complete.group_by("host", maintain_order=True):
        host_samples = samples.filter(pl.col("host") == host).sort("t_s")
        if len(host_samples) >= 2:
            parts.append(own.with_columns(_use(host_samples, own)))
    return pl.concat(parts) if parts else complete.with_columns(pl.lit(0.0).alias(name) for name in COUNTERS).clear()


def _use(host_samples: pl.DataFrame, steps: pl.DataFrame) -> list[pl.Series]:
    times = host_samples["t_s"].to_numpy()
    start = steps["t_s"].to_numpy()
    duration = np.maximum(steps["duration_s"].to_numpy(), 1e-9)
    columns_of_rates = []
    for name, (counter, unit) in COUNTERS.items():
        values = host_samples[counter].cast(pl.Float64).to_numpy()
        growth = np.interp(start + duration, times, values) - np.interp(start, times, values)
        columns_of_rates.append(pl.Series(name, growth / duration / unit))
    return columns_of_rates


def binned(table: pl.DataFrame, columns: Sequence[str], *, by: str, bins: int) -> pl.DataFrame:
    """Mean, minimum and maximum of each column in `bins` equal time intervals, for each value of `by`."""
    if not len(table):
        return table
    start, end = _extent(table["t_s"])
    width = max(end - start, 1e-9) / bins
    number = ((pl.col("t_s") - start) / width).floor().clip(0, bins - 1)
    figures = [
        getattr(pl.col(column), kind)().alias(column if kind == "mean" else f"{column}_{kind}")
        for column in columns
        for kind in ("mean", "min", "max")
    ]
    binned_rows = table.with_columns(bin=number).group_by(by, "bin").agg(figures).sort(by, "bin")
    return binned_rows.with_columns(t_s=start + (pl.col("bin") + 0.5) * width).drop("bin")


def downsampled(values: "np.ndarray[Any, Any]", points: int) -> "np.ndarray[Any, Any]":
    """Indices of at most `points` values: the smallest and largest of each chunk, the first and the last."""
    count = len(values)
    if count <= points:
        return np.arange(count)
    chunks = max(1, points // 2 - 1)
    length = -(-count // chunks)
    padded = np.full(length * chunks, np.nan)
    padded[:count] = values
    table = padded.reshape(chunks, length)
    first = np.arange(chunks) * length
    lowest = first + np.where(np.isnan(table), np.inf, table).argmin(axis=1)
    highest = first + np.where(np.isnan(table), -np.inf, table).argmax(axis=1)
    indices = np.unique(np.concatenate([[0, count - 1], lowest, highest]))
    return indices[indices < count]


def steps_per_second(steps: pl.DataFrame, *, start_s: float, bins: int) -> pl.DataFrame:
    """Throughput of each worker in `bins` time intervals counted from `start_s`: (task, t_s, steps_per_s)."""
    ends = steps.filter(pl.col("kind") == "step").select("task", end=pl.col("t_s") + pl.col("duration_s") - start_s)
    if not len(ends):
        return pl.DataFrame(schema={"task": pl.String, "t_s": pl.Float64, "steps_per_s": pl.Float64})
    width = max(float(ends["end"].max()), 1e-9) / bins  # type: ignore[arg-type]
    counts = ends.with_columns(bin=(pl.col("end") / width).floor().clip(0, bins - 1).cast(pl.Int32)).group_by(
        "task", "bin"
    )
    all_bins = ends.select(pl.col("task").unique()).join(
        pl.DataFrame({"bin": range(bins)}, schema={"bin": pl.Int32}), how="cross"
    )
    return (
        all_bins.join(counts.len(), on=["task", "bin"], how="left")
        .select("task", t_s=(pl.col("bin") + 0.5) * width, steps_per_s=pl.col("len").fill_null(0) / width)
        .sort("task", "t_s")
    )


def phase_spans(steps: pl.DataFrame, *, mixed_phase: str | None, uncertainty: Uncertainty = EXACT) -> pl.DataFrame:
    """The phases of every step with their start and duration: (task, kind, step, t_s, duration_s).

    `mixed_phase` (of the strategy) ends for all workers at the same time, so it begins with a wait, unless the wait is
    shorter than the uncertainty of the clocks.
    """
    spans = steps.filter(pl.col("kind").is_in(TIMED_NAMES))
    spans = spans.select("task", "host", "kind", "step", "t_s", "duration_s")
    return (split_wait_from(mixed_phase, spans, uncertainty) if mixed_phase else spans).drop("host")


def phase_shares(spans: pl.DataFrame, *, bins: int) -> pl.DataFrame:
    """Share of each phase in the time of each task, in `bins` equal time intervals: (task, kind, t_s, share)."""
    start, end = _extent(spans["t_s"]) if len(spans) else (0.0, 0.0)
    width = max(end - start, 1e-9) / bins
    number = ((pl.col("t_s") - start) / width).floor().clip(0, bins - 1).cast(pl.Int32)
    spent = spans.group_by("task", "kind", number.alias("bin")).agg(pl.col("duration_s").sum())
    share = pl.col("duration_s") / pl.col("duration_s").sum().over("task", "bin")
    return spent.select("task", "kind", t_s=start + (pl.col("bin") + 0.5) * width, share=share).sort(
        "task", "kind", "t_s"
    )


def windows(steps: pl.DataFrame, *, steps_each: int) -> list[Window]:
    """Parts of the run to show step by step: the first and last steps, those around the slowest, some in between."""
    complete = steps.filter(pl.col("kind") == "step").select("task", "step", "t_s", "duration_s")
    if not len(complete):
        return []
    # Look for the slowest step after the warm-up: the first steps have a window of their own.
    later = complete.filter(pl.col("step") > steps_each // 2)
    slowest = (later if len(later) else complete).sort("duration_s", descending=True).row(0, named=True)
    first_worker = complete.filter(pl.col("task") == complete["task"].min()).sort("step")
    count = len(first_worker)
    shown = [_window("first steps", first_worker, 0, steps_each)]
    if count <= steps_each:
        return shown
    slowest_worker = complete.filter(pl.col("task") == slowest["task"]).sort("step")
    at = int(np.searchsorted(slowest_worker["step"].to_numpy(), slowest["step"]))
    shown.append(
        _window(
            f"slowest ({slowest['task']}, step {slowest['step']:,})", slowest_worker, at - steps_each // 2, steps_each
        )
    )
    if count >= 8 * steps_each:
        shown += [
            _window(f"at {quarter * 25} %", first_worker, count * quarter // 4, steps_each) for quarter in (1, 2, 3)
        ]
    return [*shown, _window("last steps", first_worker, count - steps_each, steps_each)]


def _window(name: str, steps: pl.DataFrame, first: int, count: int) -> Window:
    rows = steps.slice(max(0, min(first, len(steps) - count)), count)
    return Window(name, float(rows["t_s"][0]), float(rows["t_s"][-1] + rows["duration_s"][-1]))


def _extent(times: pl.Series) -> tuple[float, float]:
    return float(times.min() or 0.0), float(times.max() or 0.0)  # type: ignore[arg-type]
