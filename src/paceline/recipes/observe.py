"""Reads what was measured under the names that recipes use: a flat record per run, worker, host, evaluation or bin."""

from collections.abc import Iterator

import polars as pl

from paceline.analyze.epochs import examples_per_epoch
from paceline.analyze.machines import machines_of
from paceline.recipes.recipe import Per
from paceline.recipes.time_bins import host_time_bins
from paceline.store.result import HostResult, Result, WorkerResult
from paceline.store.run import StoredRun

Value = str | float | None
Observation = dict[str, Value]
DEPENDS_ON_PROGRESS = frozenset(
    {"loss", "accuracy_pct", "worker_accuracy_pct", "updates", "steps", "worker_steps", "reached_s", "reached_update"}
)
"""Fields that say how far a run came: they depend on when it stopped."""
DEPENDS_ON_WORK = frozenset({"train_s", "total_s", "fetched_mb"})
"""Fields that grow with the work that was done. Their ratios can be compared if the stop rule fixes the work."""


def observe(result: Result, stored: StoredRun, per: Per) -> list[Observation]:
    """The records of one run. Unless there is one per host, host values are those of the first host."""
    machines = machines_of(stored)

    def of_host(host: HostResult) -> Observation:
        return _of_host(host, machines.cores(host.host), result.train_s)

    run = _of_run(result, stored) | (of_host(result.hosts[0]) if result.hosts else {})
    match per:
        case "worker":
            return [
                run | {"worker": str(index), "host": worker.host} | _of_worker(worker, result)
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
        "run": result.run,
        "workload": result.workload,
        "size": result.size,
        "model": result.title,
        "engine": result.engine,
        "strategy": result.strategy,
        "layout": result.layout,
        "batch": str(result.batch),
        "lineage": str(result.settings.get("lineage") or "none"),
        "examples": "all" if examples is None else str(examples),
        "activation": str(result.settings.get("activation") or "-"),
        "steps_per_epoch": str(result.settings.get("steps_per_epoch") or "-"),
        "init": str(result.settings.get("init") or "-"),
        "stop": " ".join(result.settings.get("stop") or ()),
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


def _of_worker(worker: WorkerResult, result: Result) -> Observation:
    steps, evaluation = worker.steps, worker.last_evaluation
    accuracy = evaluation.accuracy if evaluation else None
    return {
        "worker_steps": float(steps),
        "s_per_step": result.train_s / worker.own_steps if worker.own_steps else None,
        "worker_accuracy_pct": None if accuracy is None else accuracy * 100,
    }


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
        "memory_mb_mean": host.memory_mb_mean or None,
        "memory_gb_mean": host.memory_mb_mean / 1e3 or None,
        "memory_free_gb_mean": None if host.memory_free_mb_mean is None else host.memory_free_mb_mean / 1e3,
        "load_average_max": host.load_average_max,
        "rx_mb_s": host.external.rx_mb_s_mean,
        "tx_mb_s": host.external.tx_mb_s_mean,
        "rx_mb_s_max": host.external.rx_mb_s_max,
        "tx_mb_s_max": host.external.tx_mb_s_max,
        "rx_packets_s": host.external.rx_packets_s_mean,
        "tx_packets_s": host.external.tx_packets_s_mean,
        "rx_packets_s_max": host.external.rx_packets_s_max,
        "tx_packets_s_max": host.external.tx_packets_s_max,
        "loopback_mb_s": host.loopback.rx_mb_s_mean,
        "disk_read_mb_s": host.disk.read_mb / train_s if train_s else None,
        "disk_write_mb_s": host.disk.write_mb / train_s if train_s else None,
    }


def _planned_update(update: int, every: int | None) -> int:
    """The update after which an evaluation was due: with asynchronous workers it starts some updates late."""
    nearest = round(update / every) * every if every else update
    return nearest if every and abs(update - nearest) <= every / 10 else update


def _evaluations(result: Result, stored: StoredRun) -> Iterator[Observation]:
    """The evaluations on the test set, in order: those of the chief, or of every worker with --set eval_by=workers."""
    steps = stored.steps
    start = float(steps.filter(pl.col("kind") == "step")["t_s"].min() or 0.0)  # type: ignore[arg-type]
    per_epoch = examples_per_epoch(stored) or result.examples
    workers = len(result.workers) if result.synchronous else 1
    evaluations = steps.filter(pl.col("kind") == "eval").sort("task", "t_s")
    rows = evaluations.unique(["task", "update"], keep="first", maintain_order=True)
    for row in rows.iter_rows(named=True):
        yield {
            "task": row["task"],
            "update": f"{_planned_update(row['update'], result.settings.get('eval_every'))}",
            "epoch": f"{row['update'] * result.batch * workers / per_epoch:.3g}",
            "at_s": row["t_s"] + row["duration_s"] - start,
            "loss": row["loss"],
            "accuracy_pct": row["accuracy"] * 100 if row["accuracy"] == row["accuracy"] else None,
        }
