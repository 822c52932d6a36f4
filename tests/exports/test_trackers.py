"""Exports to MLflow and Weights & Biases, with the real packages and without a server."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import paceline as package
from contracts.golden import STORED_RUNS, paceline
from paceline.analyze.load import load_result
from paceline.exports.series import final_values, points
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun

_BLOCK, _FULL, _LAST = 32_768, 1, 4


def test_series_have_the_values_of_all_hosts_and_workers() -> None:
    paths = RunPaths(STORED_RUNS / "faulty-1")
    result = load_result(paths)
    found = points(StoredRun(paths), result)
    names = {name for point in found for name in point.values}
    assert {"train/w0/loss", "train/w1/loss", "test/loss", "test/accuracy"} <= names
    assert {"hosts/h1/cpu_cores", "hosts/h2/memory_mb"} <= names
    assert [point.seconds for point in found] == sorted(point.seconds for point in found)
    final = final_values(result)
    assert final["updates"] == 150
    assert final["workers/w1/steps"] == 150
    assert final["hosts/h2/memory_mb_max"] == result.hosts[1].memory_mb_max


def test_mlflow_has_one_run_with_all_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    directory = tmp_path / "tracking"
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    lines = package.export("modes", format="mlflow", out=directory, runs=STORED_RUNS)
    assert [line.partition(":")[0] for line in lines] == ["modes-1", "modes-2", "modes-3"]
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=directory.as_uri())
    experiment = client.get_experiment_by_name("paceline")
    assert experiment
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == {"modes-1", "modes-2", "modes-3"}
    run, result = runs["modes-2"], load_result(RunPaths(STORED_RUNS / "modes-2"))
    assert run.info.status == "FINISHED"
    assert run.data.params["strategy"] == result.strategy
    assert run.data.metrics["updates_per_s"] == pytest.approx(result.updates_per_s)
    assert run.data.metrics["hosts/h2/cpu_cores_mean"] == pytest.approx(result.hosts[1].cpu_cores_mean)
    assert run.data.tags["bottleneck"] == result.verdict.cause
    losses = client.get_metric_history(run.info.run_id, "train/w1/loss")
    assert len(losses) == result.workers[1].steps
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"result.json", "spec.toml"}


def test_wandb_has_one_offline_run_with_all_hosts(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    completed = paceline("export", "modes-2", "--format", "wandb", "--out", tmp_path, "--runs", STORED_RUNS)
    assert completed.returncode == 0, completed.stderr
    assert "wandb sync" in completed.stdout
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    rows, summary, config = _read_wandb(file)
    result = load_result(RunPaths(STORED_RUNS / "modes-2"))
    assert sum("train/w1/loss" in row for row in rows) == result.workers[1].steps
    assert any("hosts/h1/cpu_cores" in row for row in rows) == any("hosts/h1/cpu_cores" in p for p in _names("modes-2"))
    assert summary["updates_per_s"] == pytest.approx(result.updates_per_s)
    assert summary["bottleneck"] == result.verdict.cause
    assert config["strategy"] == result.strategy


def _names(run: str) -> set[str]:
    paths = RunPaths(STORED_RUNS / run)
    return {name for point in points(StoredRun(paths), load_result(paths)) for name in point.values}


def _read_wandb(file: Path) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """History, summary and configuration in the file of an offline run."""
    from wandb.proto.wandb_internal_pb2 import Record

    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for data in _wandb_records(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            rows.append(_items(record.history.item))
        if record.HasField("summary"):
            summary |= _items(record.summary.update)
        if record.HasField("run"):
            config |= _items(record.run.config.update)
    return rows, summary, config


def _wandb_records(data: bytes) -> Iterator[bytes]:
    """The records of a LevelDB log, which is the format of the file: blocks of 32 KiB with parts of records."""
    assert data.startswith(b":W&B")
    position, parts = 7, list[bytes]()
    while position + 7 <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        parts.append(data[position + 7 : position + 7 + length])
        position += 7 + length
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


@pytest.mark.parametrize("package", ["mlflow", "wandb"])
def test_missing_package_is_named_with_its_extra(package: str) -> None:
    code = f"import sys; sys.modules['{package}'] = None\nfrom paceline.cli.main import main\nmain()"
    arguments = ["export", "modes-1", "--format", package, "--runs", str(STORED_RUNS)]
    completed = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert completed.returncode == 2
    assert f"pip install 'paceline[{package}]'" in completed.stderr
    assert completed.stderr.count("\n") == 1
