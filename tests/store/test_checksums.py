"""Damage of a table is known before it is read."""

from pathlib import Path

import pytest

from paceline.errors import StoreError
from paceline.store.checksums import EVENT, write_checksums
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from report.stored import store_run


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return store_run(tmp_path / "runs", steps=20)


@pytest.mark.parametrize("table", ["steps", "samples"])
def test_one_other_bit_is_damage(run: RunPaths, table: str) -> None:
    path: Path = getattr(run, table)
    data = bytearray(path.read_bytes())
    assert getattr(StoredRun(run), table).height
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"run {run.id} is damaged: the checksum of {table}.parquet is wrong"):
        getattr(StoredRun(run), table)


def test_what_counts_is_the_last_seal_and_a_torn_line_before_it_is_no_hindrance(run: RunPaths) -> None:
    with run.events.open("ab") as events:
        events.write(b'{"t_s": 3.5, "event": "exi')
    run.steps.write_bytes(run.samples.read_bytes())
    write_checksums(run)
    stored = StoredRun(run)
    assert [event["event"] for event in stored.events[-2:]] == [EVENT, EVENT]
    assert stored.events[-1]["t_s"] == stored.events[-2]["t_s"]
    with pytest.raises(StoreError, match="damaged"):  # Of another kind: there are no steps in it.
        _ = stored.steps["step"]


def test_of_a_run_without_checksums_nothing_is_known(run: RunPaths) -> None:
    lines = run.events.read_bytes().splitlines(keepends=True)
    run.events.write_bytes(b"".join(line for line in lines if b'"tables"' not in line))
    assert StoredRun(run).steps.height
