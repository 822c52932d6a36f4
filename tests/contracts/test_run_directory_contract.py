"""Run directories keep their file names and columns, and runs of older versions stay readable."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from contracts.golden import STORED_RUNS, golden, json_lines, paceline, without_additions

FILES = (
    "spec.toml",
    "result.json",
    "steps.parquet",
    "samples.parquet",
    "events.jsonl",
    "checkpoints/final.safetensors",
)
STORED = sorted(directory.name for directory in STORED_RUNS.iterdir())


@pytest.fixture
def directory(runs: Path, new_run: subprocess.CompletedProcess[str]) -> Path:
    """The directory of a run that has just been made."""
    assert new_run.returncode == 0, new_run.stderr
    return runs / "new-1"


def test_run_directory_has_the_documented_files(directory: Path, new_run: subprocess.CompletedProcess[str]) -> None:
    for name in FILES:
        assert (directory / name).stat().st_size > 0, name
    for task in ("w0", "w1"):
        assert list((directory / "tensorboard" / task).glob("events.out.tfevents.*")), task
    assert (directory / "logs").is_dir()
    assert [json.loads((directory / "result.json").read_text())] == json_lines(new_run)
    for line in (directory / "events.jsonl").read_text().splitlines():
        assert json.loads(line).keys() >= {"t_s", "event"}


def test_output_of_a_task_is_in_its_log(runs: Path, failed_run: subprocess.CompletedProcess[str]) -> None:
    assert failed_run.returncode == 1
    assert "first batch" in (runs / "failed-1" / "logs" / "w0.log").read_text()


@pytest.mark.parametrize("table", ["steps", "samples"])
def test_tables_keep_their_columns(directory: Path, table: str) -> None:
    expected = golden("tables.toml")[table]
    actual = dict(_columns(pl.read_parquet_schema(directory / f"{table}.parquet")))
    changed = {name: actual.get(name, "missing") for name, dtype in expected.items() if actual.get(name) != dtype}
    assert not changed, f"columns of {table}.parquet may not be removed, renamed or change type: {changed}"


def _columns(fields: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every column and its type; `tasks[].cpu_s` is a field of the structs in the list column `tasks`."""
    for name, dtype in dict(fields).items():
        if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct):
            yield from _columns(dtype.inner.to_schema(), f"{prefix}{name}[].")
        else:
            yield f"{prefix}{name}", str(dtype)


def test_steps_keep_the_names_of_their_kinds(directory: Path) -> None:
    kinds = set(pl.read_parquet(directory / "steps.parquet")["kind"])
    assert kinds >= set(golden("tables.toml")["kinds"]["ps-async"])


def test_stored_spec_is_recognized_as_the_same_run(runs: Path, directory: Path) -> None:
    completed = paceline("run", directory / "spec.toml", "--name", "new", "--runs", runs, "--json")
    assert completed.returncode == 0, completed.stderr
    # A sweep does not repeat a run that is done: the spec is recognized as that of new-1.
    assert [result["run"] for result in json_lines(completed)] == ["new-1"]


def test_spec_of_an_older_run_can_be_planned(tmp_path: Path) -> None:
    completed = paceline("run", STORED_RUNS / "faulty-1" / "spec.toml", "--runs", tmp_path, "--dry-run")
    assert completed.returncode == 0, completed.stderr


def test_older_run_can_be_shown(runs: Path) -> None:
    written = json.loads((STORED_RUNS / "faulty-1" / "result.json").read_text())
    completed = paceline("show", "faulty-1", "--runs", runs, "--json")
    (shown,) = json_lines(completed)
    # The stored run was copied: `dir` says where it is now.
    assert without_additions(shown, written) == written | {"dir": str(runs / "faulty-1")}
    page = paceline("show", "faulty-1", "--runs", runs)
    assert page.returncode == 0, page.stderr
    assert "faulty-1" in page.stdout


def test_result_of_an_older_run_can_be_recomputed(runs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "faulty-1"
    shutil.copytree(runs / "faulty-1", copy)
    (copy / "result.json").unlink()
    (recomputed,) = json_lines(paceline("show", "faulty-1", "--runs", tmp_path, "--json"))
    written = json.loads((STORED_RUNS / "faulty-1" / "result.json").read_text())
    measured = ("status", "layout", "updates", "examples", "train_s", "total_s", "final", "reached", "workers", "key")
    expected = {key: written[key] for key in measured}
    assert without_additions(recomputed, expected) == expected
    assert [fault["what"] for fault in recomputed["faults"]] == ["kill w1 at 0s"]


def test_older_runs_can_be_compared(runs: Path) -> None:
    (comparison,) = json_lines(paceline("compare", *STORED, "--runs", runs, "--json"))
    assert sorted(run for group in comparison["groups"] for run in group["runs"]) == STORED
    table = paceline("compare", *STORED, "--runs", runs)
    assert table.returncode == 0, table.stderr


def test_report_can_be_made_of_older_runs(runs: Path, tmp_path: Path) -> None:
    formats = ("html", "md", "csv", "json")
    out = tmp_path / "report.html"
    completed = paceline("report", *STORED, "--runs", runs, "--format", ",".join(formats), "--out", out)
    assert completed.returncode == 0, completed.stderr
    written = {suffix: out.with_suffix(f".{suffix}").read_text() for suffix in formats}
    for name in STORED:
        assert all(name in written[suffix] for suffix in ("html", "csv", "json")), name
    for strategy in ("ps-sync", "ps-async"):
        assert all(strategy in text for text in written.values()), strategy
