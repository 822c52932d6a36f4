"""Tasks whose memory grows during the whole training, as with a memory leak."""

import numpy as np
import polars as pl

from paceline.store.verdict import MemoryGrowth

_WARM_UP = 1 / 3
"""Part of the training that is left out: caches and buffers fill up in it."""
_SHORTEST_S = 8.0
_LEAST_MB = 48.0
_LEAST_FACTOR = 1.1
_LEAST_CORRELATION = 0.95
"""Between time and memory, of a growth that is steady."""
_SECOND_HALF = 0.35
"""Part of the growth that is in the second half of the time, at least: memory that fills up grows less and less."""


def memory_growth(samples: pl.DataFrame, *, start_s: float, end_s: float) -> list[MemoryGrowth]:
    """The tasks whose resident memory grew steadily until the end of the training, the fastest growth first."""
    first_s = start_s + _WARM_UP * (end_s - start_s)
    if end_s - first_s < _SHORTEST_S:
        return []
    during = samples.filter(pl.col("t_s").is_between(first_s, end_s)).sort("t_s")
    rows = during.select("host", "t_s", "memory_free_bytes", "tasks").explode("tasks").drop_nulls("tasks")
    found = []
    for (host, task), part in rows.unnest("tasks").group_by("host", "task", maintain_order=True):
        free = part["memory_free_bytes"].drop_nulls()
        growth = _growth(part["t_s"].to_numpy(), part["rss_bytes"].to_numpy() / 1e6)
        if growth:
            mb_per_s, from_mb, to_mb = growth
            found.append(
                MemoryGrowth(
                    task=str(task),
                    host=str(host),
                    mb_per_s=round(mb_per_s, 4),
                    from_mb=round(from_mb, 1),
                    to_mb=round(to_mb, 1),
                    full_after_s=round(float(free[-1]) / 1e6 / mb_per_s, 1) if len(free) else None,
                )
            )
    return sorted(found, key=lambda growth: -growth.mb_per_s)


def _growth(times: np.ndarray, memory_mb: np.ndarray) -> tuple[float, float, float] | None:
    """Growth per second, first and last value of memory that grows steadily; None if it does not."""
    if len(times) < 10 or np.ptp(times) <= 0 or np.ptp(memory_mb) <= 0:
        return None
    slope, offset = np.polyfit(times, memory_mb, 1)
    from_mb, to_mb = offset + slope * times[0], offset + slope * times[-1]
    middle = memory_mb[np.searchsorted(times, (times[0] + times[-1]) / 2)]
    is_large = to_mb - from_mb >= _LEAST_MB and to_mb >= _LEAST_FACTOR * from_mb
    is_steady = np.corrcoef(times, memory_mb)[0, 1] >= _LEAST_CORRELATION
    goes_on = memory_mb[-1] - middle >= _SECOND_HALF * (memory_mb[-1] - memory_mb[0])
    return (float(slope), float(from_mb), float(to_mb)) if is_large and is_steady and goes_on else None
