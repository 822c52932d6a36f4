"""Reads what was measured under the names that recipes use: a flat record per run, worker, host, evaluation or bin."""

from collections.abc import Iterator

import polars as pl

from paceline.analyze.machines import machines_of
from paceline.recipes.recipe import Per
from paceline.recipes.time_bins import host_time_bins
from paceline.store.result import HostResult, Result
from paceline.store.run import StoredRun
from paceline.workloads.registry import workload

Value = str | float | None
Observation = dict[str, Value]


def observe(result: Result, stored: StoredRun, per: Per) -> list[Observation]:
    """The records of one run. Unless there is one per host, host values are those of the first host."""
    machines = machines_of(stored)

    def of_host(host: HostResult) -> Observation:
        return _of_host(host, machines.cores(host.host), result.train_s)

    run = _of_run(result, stored) | (of_host(result.hosts[0]) if result.hosts else {})
    match per:
        case "worker":
            return [
                run | {"worker": str(index), "host": worker.host} | _of_steps(worker.steps, result)
                for index, worker in enumerate(result.workers)
            ]
        case "host":
            return [run | of_host(host) for host in result.hosts]
        case "evaluation":
            return [run | point for point in _evaluations(result, stored)]
        case "time_bin":
            return [run | time_bin for time_bin in host_time_bins(result, stored)]
    return [run]


def _examples(stored: StoredRun) -> int | None:
    """Requested number of training examples; None is all."""
    return stored.header.spec.examples


def _of_run(result: Result, stored: StoredRun) -> Observation:
    examples = _examples(stored)
    return {
        "workload": result.workload,
        "size": result.size,
        "model": result.title,
        "engine": result.engine,
        "strategy": result.strategy,
        "layout": result.layout,
        "batch": str(result.batch),
        "examples": "all" if examples is None else str(examples),
        "train_s": result.train_s,
        "total_s": result.total_s,
        "updates": float(result.updates),
        "steps": float(sum(worker.steps for worker in result.workers)),
        "updates_per_s": result.updates_per_s,
        "examples_per_s": result.examples_per_s or None,
        "s_per_update": 1 / result.updates_per_s if result.updates_per_s else None,
        "loss": result.final.loss,
        "accuracy_pct": None if result.final.accuracy is None else result.final.accuracy * 100,
        "reached_s": result.to_target_s,
        "reached_update": float(result.reached.at_update) if result.reached else None,
        "fetched_mb": sum(worker.fetched_mb for worker in result.workers),
    }


def _of_steps(steps: int, result: Result) -> Observation:
    return {"worker_steps": float(steps), "s_per_step": result.train_s / steps if steps else None}


def _of_host(host: HostResult, cores: int, train_s: float) -> Observation:
    share = 100 / cores if cores else 0.0
    return {
        "host": host.host,
        "cpu_cores_mean": host.cpu_cores_mean,
        "cpu_cores_max": host.cpu_cores_max,
        "cpu_pct": host.cpu_cores_mean * share if cores else None,
        "cpu_pct_max": host.cpu_cores_max * share if cores else None,
        "idle_pct": 100 - host.cpu_cores_mean * share if cores else None,
        "busiest_core_pct": host.busiest_core_max * 100,
        "memory_mb_max": host.memory_mb_max,
        "memory_gb_max": host.memory_mb_max / 1e3,
        "rx_mb_s": host.external.rx_mb_s_mean,
        "tx_mb_s": host.external.tx_mb_s_mean,
        "rx_mb_s_max": host.external.rx_mb_s_max,
        "tx_mb_s_max": host.external.tx_mb_s_max,
        "rx_packets_s": host.external.rx_packets_s_mean,
        "tx_packets_s": host.external.tx_packets_s_mean,
        "loopback_mb_s": host.loopback.rx_mb_s_mean,
        "disk_read_mb_s": host.disk.read_mb / train_s if train_s else None,
        "disk_write_mb_s": host.disk.write_mb / train_s if train_s else None,
    }


def _planned_update(update: int, every: int | None) -> int:
    """The update after which an evaluation was due: with asynchronous workers it starts some updates late."""
    nearest = round(update / every) * every if every else update
    return nearest if every and abs(update - nearest) <= every / 10 else update


def _evaluations(result: Result, stored: StoredRun) -> Iterator[Observation]:
    """The chief's evaluations on the test set, in order."""
    steps = stored.steps
    start = float(steps.filter(pl.col("kind") == "step")["t_s"].min() or 0.0)  # type: ignore[arg-type]
    per_epoch = _examples(stored) or workload(result.workload, result.size).train_examples
    workers = len(result.workers) if result.synchronous else 1
    rows = steps.filter(pl.col("kind") == "eval").sort("t_s").unique("update", keep="first", maintain_order=True)
    for row in rows.iter_rows(named=True):
        yield {
            "update": f"{_planned_update(row['update'], result.settings.get('eval_every'))}",
            "epoch": f"{row['update'] * result.batch * workers / per_epoch:.3g}",
            "at_s": row["t_s"] + row["duration_s"] - start,
            "loss": row["loss"],
            "accuracy_pct": row["accuracy"] * 100 if row["accuracy"] == row["accuracy"] else None,
        }
