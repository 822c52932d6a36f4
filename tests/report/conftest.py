from pathlib import Path

import pytest

from paceline.store.paths import RunPaths
from report.stored import store_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def sweep(runs: Path) -> list[RunPaths]:
    """Two strategies, three layouts, two batch sizes, two repeats; more workers are faster, to a degree."""
    return [
        store_run(
            runs, name="sweep", strategy=strategy, layout=layout, batch=batch,
            pace=(1 + 0.01 * repeat) * (1.5 if strategy == "ps-async" else 1.0) * 100 / (50 + batch),
        )
        for repeat in (1, 2)
        for strategy in ("ps-sync", "ps-async")
        for layout in ("pw", "pw w", "pw w w")
        for batch in (50, 200)
    ]  # fmt: skip
