"""How long tasks waited for a CPU core, between the readings of the counter.

The agent reads the counter about once a second and repeats the value in the samples between. A period of a second may
thus contain no reading, or the waiting of more than a second.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

LONGEST_GAP_S = 2.0
"""Between two readings: they are due after a second, but a busy agent may be late. The counter of a task that did not
wait does not change, so what a reading adds may be from a shorter time than since the last change."""

_Vector = npt.NDArray[np.float64]


def spread_run_wait(samples: pl.DataFrame) -> pl.DataFrame:
    """The samples, with the growth of `run_wait_s` of each task spread evenly over the time before each reading."""
    rows = samples.with_row_index("row").select("row", "t_s", "tasks").explode("tasks").drop_nulls("tasks")
    if rows.is_empty():
        return samples
    fields = list(samples.schema["tasks"].inner.to_schema())  # type: ignore[attr-defined]
    parts = [
        part.with_columns(run_wait_s=_spread(part["t_s"].to_numpy(), part["run_wait_s"]))
        for part in rows.unnest("tasks").sort("t_s").partition_by("task")
    ]
    by_row = (
        pl.concat(parts).sort("row").group_by("row", maintain_order=True).agg(pl.struct(fields).alias("spread_tasks"))
    )
    joined = samples.with_row_index("row").join(by_row, on="row", how="left", maintain_order="left")
    return joined.with_columns(tasks=pl.coalesce("spread_tasks", "tasks")).select(samples.columns)


def _spread(times: _Vector, counter: pl.Series) -> pl.Series:
    """The values of a counter that grows evenly between its readings, at the same times."""
    known = counter.is_not_null().to_numpy()
    if known.sum() < 2:
        return counter
    read_at, values = times[known], counter.drop_nulls().to_numpy()
    changes = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1)]
    knots = [(read_at[0], values[0])]
    for before, now in pairwise(changes):
        # The counter of a restarted task begins again. A counter that does not change may have been read again.
        start_s = read_at[now - 1] if values[now] < values[before] else read_at[now] - LONGEST_GAP_S
        knots += [(max(read_at[before], start_s), values[before]), (read_at[now], values[now])]
    knots.append(_last_knot(read_at[-1], knots))
    spread = np.interp(times, [time for time, _ in knots], [value for _, value in knots])
    return pl.Series(np.where(known, spread, np.nan)).fill_nan(None)


def _last_knot(end_s: float, knots: list[tuple[float, float]]) -> tuple[float, float]:
    """The value at the last sample: the counter goes on growing until its next reading is due."""
    last_s, value = knots[-1]
    if len(knots) < 3 or end_s - last_s > LONGEST_GAP_S:
        return end_s, value
    before_s, value_before = knots[-2]
    slope = (value - value_before) / (last_s - before_s) if last_s > before_s else 0.0
    return end_s, value + max(0.0, slope) * (end_s - last_s)
