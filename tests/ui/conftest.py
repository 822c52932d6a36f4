from collections.abc import Iterator
from pathlib import Path

import pytest

from report.stored import store_run
from ui.serving import Server, serving

NASTY = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two sweeps, one with a hostile record, and two damaged ones."""
    runs = tmp_path_factory.mktemp("ui") / "runs"
    for strategy in ("ps-sync", "ps-async"):
        for layout in ("pw", "pw w"):
            store_run(runs, name="modes", strategy=strategy, layout=layout, stop=["loss=0.3"])
    nasty = store_run(runs, name="nasty", data=NASTY, incident=NASTY, end=("failed", NASTY))
    (nasty.logs / "w0.log").write_bytes(b"\x1b[31mred " + NASTY.encode() + b"\n" + b"x" * 100_000 + b"\nthe end")
    (store_run(runs, name="broken").result).write_bytes(b"{ not json")
    (store_run(runs, name="headless").events).write_bytes(b"")
    odd = runs / "<img src=x onerror=alert(2)>"
    store_run(runs, name="odd").directory.rename(odd)
    return runs


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Server]:
    with serving(runs) as server:
        yield server
