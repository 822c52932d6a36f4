"""Memory that grows steadily is reported; memory that fills up or is noisy is not."""

import numpy as np
import polars as pl
import pytest

from paceline.analyze.memory_growth import memory_growth
from paceline.store.tables import SAMPLES_SCHEMA

FREE_BYTES = 10**10


def samples(memory_mb: np.ndarray, *, seconds: float = 30.0) -> pl.DataFrame:
    times = np.linspace(0.0, seconds, len(memory_mb))
    task = {"cpu_s": 0.0, "threads": 1, "run_wait_s": 0.0}
    rows = {
        "host": ["h1"] * len(times),
        "t_s": times,
        "memory_free_bytes": [FREE_BYTES] * len(times),
        "tasks": [[{"task": "w0", "rss_bytes": int(value * 1e6), **task}] for value in memory_mb],
    }
    missing = {name: [None] * len(times) for name in SAMPLES_SCHEMA if name not in rows}
    return pl.DataFrame({**rows, **missing}, schema_overrides=SAMPLES_SCHEMA)


T = np.linspace(0.0, 30.0, 300)


def test_a_leak_is_reported_with_its_rate_and_when_the_memory_is_full() -> None:
    noise = np.random.default_rng(1).normal(0, 2, len(T))
    (growth,) = memory_growth(samples(300 + 20 * T + noise), start_s=0.0, end_s=30.0)
    assert (growth.task, growth.host) == ("w0", "h1")
    assert growth.mb_per_s == pytest.approx(20, rel=0.02)
    assert growth.to_mb == pytest.approx(900, rel=0.02)
    assert growth.full_after_s == pytest.approx(FREE_BYTES / 1e6 / 20, rel=0.02)


@pytest.mark.parametrize(
    "memory_mb",
    [
        pytest.param(np.full(300, 300.0), id="constant"),
        pytest.param(300 + 500 * (1 - np.exp(-T / 6)), id="a cache that fills up"),
        pytest.param(300 + np.where(T > 20, 400.0, 0.0), id="one allocation"),
        pytest.param(5000 + 2 * T, id="slow growth"),
        pytest.param(300 + 200 * np.sin(T), id="up and down"),
    ],
)
def test_other_changes_of_memory_are_no_leak(memory_mb: np.ndarray) -> None:
    assert memory_growth(samples(memory_mb), start_s=0.0, end_s=30.0) == []


def test_a_short_training_says_nothing_about_memory() -> None:
    assert memory_growth(samples(300 + 50 * T / 3, seconds=10.0), start_s=0.0, end_s=10.0) == []
