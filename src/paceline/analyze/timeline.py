"""What happened when: steps, samples and events of a run on one clock, and thinned out so that it can be drawn."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from paceline.analyze.phases import PHASE_NAMES

COUNTERS = {
    "cpu_cores": ("cpu_s", 1.0),
    "external_rx_mb_s": ("external_rx_bytes", 1e6),
    "external_tx_mb_s": ("external_tx_bytes", 1e6),
    "loopback_rx_mb_s": ("loopback_rx_bytes", 1e6),
    "loopback_tx_mb_s": ("loopback_tx_bytes", 1e6),
    "disk_read_mb_s": ("disk_read_bytes", 1e6),
    "disk_write_mb_s": ("disk_write_bytes", 1e6),
}
"""Rates by name: the counter each is the growth of, and what a unit of it is in counts."""


class Window(msgspec.Struct, frozen=True):
    """A stretch of a run worth looking at closely."""

    name: str
    start_s: float
    end_s: float


def host_rates(samples: pl.DataFrame) -> pl.DataFrame:
    """One row per host and sample but its first: rates since the sample before, and memory at that moment."""
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
    """Each step with what its host used meanwhile: counters are taken to grow evenly between two samples."""
    whole = steps.filter(pl.col("kind") == "step").select("task", "host", "step", "update", "t_s", "duration_s")
    parts = []
    for (host,), mine in whole.group_by("host", maintain_order=True):
        taken = samples.filter(pl.col("host") == host).sort("t_s")
        if len(taken) >= 2:
            parts.append(mine.with_columns(_use(taken, mine)))
    return pl.concat(parts) if parts else whole.with_columns(pl.lit(0.0).alias(name) for name in COUNTERS).clear()


def _use(taken: pl.DataFrame, steps: pl.DataFrame) -> list[pl.Series]:
    times = taken["t_s"].to_numpy()
    start = steps["t_s"].to_numpy()
    lasted = np.maximum(steps["duration_s"].to_numpy(), 1e-9)
    found = []
    for name, (counter, unit) in COUNTERS.items():
        values = taken[counter].cast(pl.Float64).to_numpy()
        grown = np.interp(start + lasted, times, values) - np.interp(start, times, values)
        found.append(pl.Series(name, grown / lasted / unit))
    return found


def binned(table: pl.DataFrame, columns: Sequence[str], *, by: str, bins: int) -> pl.DataFrame:
    """Mean, minimum and maximum of each column in `bins` equal stretches of time, for each value of `by`."""
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
    found = table.with_columns(bin=number).group_by(by, "bin").agg(figures).sort(by, "bin")
    return found.with_columns(t_s=start + (pl.col("bin") + 0.5) * width).drop("bin")


def downsampled(values: "np.ndarray[Any, Any]", points: int) -> "np.ndarray[Any, Any]":
    """Indices of at most `points` values: the smallest and largest of each stretch, the first and the last."""
    count = len(values)
    if count <= points:
        return np.arange(count)
    stretches = max(1, points // 2 - 1)
    length = -(-count // stretches)
    padded = np.full(length * stretches, np.nan)
    padded[:count] = values
    table = padded.reshape(stretches, length)
    first = np.arange(stretches) * length
    lowest = first + np.where(np.isnan(table), np.inf, table).argmin(axis=1)
    highest = first + np.where(np.isnan(table), -np.inf, table).argmax(axis=1)
    chosen = np.unique(np.concatenate([[0, count - 1], lowest, highest]))
    return chosen[chosen < count]


def pace(steps: pl.DataFrame, *, start_s: float, bins: int) -> pl.DataFrame:
    """Steps a second of each worker in stretches of time counted from `start_s`: (task, t_s, steps_per_s)."""
    ends = steps.filter(pl.col("kind") == "step").select("task", end=pl.col("t_s") + pl.col("duration_s") - start_s)
    if not len(ends):
        return pl.DataFrame(schema={"task": pl.String, "t_s": pl.Float64, "steps_per_s": pl.Float64})
    width = max(float(ends["end"].max()), 1e-9) / bins  # type: ignore[arg-type]
    counts = ends.with_columns(bin=(pl.col("end") / width).floor().clip(0, bins - 1).cast(pl.Int32)).group_by(
        "task", "bin"
    )
    every = ends.select(pl.col("task").unique()).join(
        pl.DataFrame({"bin": range(bins)}, schema={"bin": pl.Int32}), how="cross"
    )
    return (
        every.join(counts.len(), on=["task", "bin"], how="left")
        .select("task", t_s=(pl.col("bin") + 0.5) * width, steps_per_s=pl.col("len").fill_null(0) / width)
        .sort("task", "t_s")
    )


def phase_spans(steps: pl.DataFrame, *, split_exchange: bool) -> pl.DataFrame:
    """The phases of every step as they followed one another: (task, kind, step, t_s, duration_s).

    `split_exchange`: pushes end for all workers at once (all-reduce), so each begins with the wait for the last.
    """
    spans = steps.filter(pl.col("kind").is_in([*PHASE_NAMES, "fused"]))
    spans = spans.select("task", "kind", "step", "t_s", "duration_s")
    if not split_exchange:
        return spans
    push = spans.filter(pl.col("kind") == "push").with_columns(
        waited=pl.min_horizontal(pl.col("t_s").max().over("step") - pl.col("t_s"), "duration_s")
    )
    waits = push.with_columns(kind=pl.lit("wait"), duration_s=pl.col("waited"))
    moves = push.with_columns(t_s=pl.col("t_s") + pl.col("waited"), duration_s=pl.col("duration_s") - pl.col("waited"))
    return pl.concat([spans.filter(pl.col("kind") != "push"), *(part.drop("waited") for part in (waits, moves))])


def phase_shares(spans: pl.DataFrame, *, bins: int) -> pl.DataFrame:
    """How each task's time was divided in equal stretches of the run: (task, kind, t_s, share)."""
    start, end = _extent(spans["t_s"]) if len(spans) else (0.0, 0.0)
    width = max(end - start, 1e-9) / bins
    number = ((pl.col("t_s") - start) / width).floor().clip(0, bins - 1).cast(pl.Int32)
    spent = spans.group_by("task", "kind", number.alias("bin")).agg(pl.col("duration_s").sum())
    share = pl.col("duration_s") / pl.col("duration_s").sum().over("task", "bin")
    return spent.select("task", "kind", t_s=start + (pl.col("bin") + 0.5) * width, share=share).sort(
        "task", "kind", "t_s"
    )


def windows(steps: pl.DataFrame, *, steps_each: int) -> list[Window]:
    """The first steps, those around the slowest, and some evenly over the run: what to look at step by step."""
    whole = steps.filter(pl.col("kind") == "step").select("task", "step", "t_s", "duration_s")
    if not len(whole):
        return []
    # The first step is slow for reasons of its own, and shown anyway.
    later = whole.filter(pl.col("step") > steps_each // 2)
    slowest = (later if len(later) else whole).sort("duration_s", descending=True).row(0, named=True)
    chief = whole.filter(pl.col("task") == whole["task"].min()).sort("step")
    count = len(chief)
    found = [_window("first steps", chief, 0, steps_each)]
    if count <= steps_each:
        return found
    own = whole.filter(pl.col("task") == slowest["task"]).sort("step")
    at = int(np.searchsorted(own["step"].to_numpy(), slowest["step"]))
    found.append(
        _window(f"slowest ({slowest['task']}, step {slowest['step']:,})", own, at - steps_each // 2, steps_each)
    )
    if count >= 8 * steps_each:
        found += [_window(f"at {quarter * 25} %", chief, count * quarter // 4, steps_each) for quarter in (1, 2, 3)]
    return [*found, _window("last steps", chief, count - steps_each, steps_each)]


def _window(name: str, steps: pl.DataFrame, first: int, count: int) -> Window:
    rows = steps.slice(max(0, min(first, len(steps) - count)), count)
    return Window(name, float(rows["t_s"][0]), float(rows["t_s"][-1] + rows["duration_s"][-1]))


def _extent(times: pl.Series) -> tuple[float, float]:
    return float(times.min() or 0.0), float(times.max() or 0.0)  # type: ignore[arg-type]
