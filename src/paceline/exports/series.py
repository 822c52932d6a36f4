"""The numbers of a run for experiment trackers: settings, final values, and values over time, of all hosts together."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from paceline.analyze.curves import learning_curves
from paceline.analyze.timeline import host_rates
from paceline.analyze.training import training_start_s
from paceline.store.result import Result
from paceline.store.run import StoredRun

_MOST_POINTS = 2_000
"""Points of a curve: more are slow to upload and cannot be seen in a chart."""
_HOST_COLUMNS = ("cpu_cores", "memory_mb", "external_rx_mb_s", "external_tx_mb_s", "disk_read_mb_s", "disk_write_mb_s")


class Point(NamedTuple):
    """Values at one time of the training."""

    seconds: float
    update: int | None
    """The update, on points of learning curves; None for samples of hosts."""
    values: dict[str, float]


def parameters(result: Result) -> dict[str, Any]:
    """What identifies the run: its options, and under which conditions it was made."""
    named = {name: getattr(result, name) for name in ("engine", "strategy", "layout", "batch", "seed", "repeat", "lr")}
    settings = {name: value for name, value in result.settings.items() if value not in (None, [], "")}
    versions = {f"version.{name}": value for name, value in result.versions.items() if value}
    found = {"workload": result.title, **named, "hosts": result.hosts_kind, "data": result.data, **settings, **versions}
    return {name: _plain(value) for name, value in found.items() if value is not None}


def _plain(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def final_values(result: Result) -> dict[str, float]:
    """Values of the whole run, with those of each worker and of each host."""
    values: dict[str, float | None] = {
        name: getattr(result, name)
        for name in ("updates", "examples", "train_s", "total_s", "first_step_s", "updates_per_s", "examples_per_s")
    }
    final = {"loss": result.final.loss, "accuracy": result.final.accuracy, "auc": result.final.auc}
    values |= {f"final/{name}": value for name, value in final.items()}
    values["bottleneck/share"] = result.verdict.share
    for worker in result.workers:
        values |= {f"workers/{worker.task}/{phase}_s": seconds for phase, seconds in worker.phases.items()}
        values[f"workers/{worker.task}/steps"] = worker.steps
        if worker.staleness:
            values[f"workers/{worker.task}/staleness_mean"] = worker.staleness.mean
    for host in result.hosts:
        for name in ("cpu_cores_mean", "cpu_cores_max", "memory_mb_max"):
            values[f"hosts/{host.host}/{name}"] = getattr(host, name)
        values[f"hosts/{host.host}/rx_mb_s_mean"] = host.external.rx_mb_s_mean
        values[f"hosts/{host.host}/tx_mb_s_mean"] = host.external.tx_mb_s_mean
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def points(run: StoredRun, result: Result) -> list[Point]:
    """Values over the training, in order of time: learning curves, and the load of each host."""
    found = [*_learning(run, result), *_hosts(run)]
    return sorted(found, key=lambda point: point.seconds)


def _learning(run: StoredRun, result: Result) -> Iterator[Point]:
    curves = learning_curves(run, result)
    for (kind, task), rows in curves.group_by("kind", "task", maintain_order=True):
        name = f"train/{task}" if kind == "step" else "test"
        for row in rows.gather_every(max(1, math.ceil(rows.height / _MOST_POINTS))).iter_rows(named=True):
            values = {f"{name}/loss": row["loss"], f"{name}/accuracy": row["accuracy"]}
            if finite := _finite(values):
                yield Point(row["seconds"], row["update"], finite)


def _hosts(run: StoredRun) -> Iterator[Point]:
    start_s = training_start_s(run)
    for (host,), rows in host_rates(run.samples).filter(pl.col("t_s") >= start_s).group_by("host", maintain_order=True):
        for row in rows.gather_every(max(1, math.ceil(rows.height / _MOST_POINTS))).iter_rows(named=True):
            if values := _finite({f"hosts/{host}/{column}": row[column] for column in _HOST_COLUMNS}):
                yield Point(row["t_s"] - start_s, None, values)


def _finite(values: dict[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
