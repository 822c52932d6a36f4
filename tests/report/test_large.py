"""Reports of large runs and sweeps are made in seconds and stay light."""

import time
from pathlib import Path

import pytest

from paceline.report.write import write_report
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from report.stored import RECORDS_PER_STEP, store_run

MOST_SECONDS = 20


def timed_report(name: str, runs: list[RunPaths], out: Path) -> float:
    begun = time.perf_counter()
    write_report(name, runs, out, ["html"])
    return time.perf_counter() - begun


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ps-async", "allreduce"])
def test_five_million_records(runs: Path, tmp_path: Path, strategy: str) -> None:
    layout = "w w w w" if strategy == "allreduce" else "pw w w w"
    paths = store_run(runs, steps=5_000_000 // RECORDS_PER_STEP // 4, strategy=strategy, layout=layout, pace=50.0)
    assert len(StoredRun(paths).steps) >= 5_000_000
    seconds = timed_report("large", [paths], tmp_path / "large.html")
    size = (tmp_path / "large.html").stat().st_size
    print(f"5 million records, {strategy}: {seconds:.1f} s, {size / 1e6:.1f} MB")
    assert seconds < MOST_SECONDS
    assert size < 1_000_000


@pytest.mark.slow
def test_a_hundred_runs(runs: Path, tmp_path: Path) -> None:
    layouts = ("pw", "pw w", "pw w w", "pw w w w", "pw pw pw")
    made = [
        store_run(runs, name="many", steps=2_000, layout=layout, batch=batch, strategy=strategy, pace=1 + 0.1 * repeat)
        for repeat in (1, 2)
        for strategy in ("ps-sync", "ps-async")
        for layout in layouts
        for batch in (10, 50, 100, 200, 500)
    ]
    assert len(made) == 100
    seconds = timed_report("many", made, tmp_path / "many.html")
    size = (tmp_path / "many.html").stat().st_size
    print(f"100 runs: {seconds:.1f} s, {size / 1e6:.1f} MB")
    assert seconds < MOST_SECONDS
    assert size < 2_500_000
