"""Builds the two tables of a run, steps and samples, from the entries of its journal. Times are on the run's clock."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from msgspec import structs

from paceline.messages import HostSample, LinkCount
from paceline.recording.layout import FIELDS, FINAL, TRACED, RecordKind
from paceline.recording.rows import decode
from paceline.store.journal import ClockOffset, Entry, HostSamples, TaskAdded, TaskRecords

_RECORD_COLUMNS = {column: numpy_type for field in FIELDS for column, numpy_type in field.columns.items()}
STEPS_SCHEMA: dict[str, Any] = {
    "task": pl.String,
    "host": pl.String,
    **{column: pl.Series(np.empty(0, numpy_type)).dtype for column, numpy_type in _RECORD_COLUMNS.items()},
}
_COUNTS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")
TASK_FIELDS: dict[str, Any] = {
    "task": pl.String,
    "cpu_s": pl.Float64,
    "rss_bytes": pl.Int64,
    "threads": pl.Int64,
    "run_wait_s": pl.Float64,  # null if the system does not measure it, and in runs older than this field
}
SAMPLES_SCHEMA: dict[str, Any] = {
    "host": pl.String,
    "t_s": pl.Float64,
    "cpu_s": pl.Float64,
    "cores_busy_s": pl.List(pl.Float64),
    "memory_bytes": pl.Int64,
    **{f"{side}_{count}": pl.Int64 for side in ("external", "loopback") for count in _COUNTS},
    "disk_read_bytes": pl.Int64,
    "disk_write_bytes": pl.Int64,
    "tasks": pl.List(pl.Struct(TASK_FIELDS)),
}


def build_tables(entries: Iterable[Entry]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables (steps, samples). Damaged or missing entries lose only their own rows."""
    offsets: dict[str, int] = {}
    hosts: dict[str, str] = {}
    chunks: dict[str, list[bytes]] = {}
    samples: dict[str, list[HostSample]] = {}
    for entry in entries:
        match entry:
            case TaskAdded(task, host):
                hosts[task] = host
            case ClockOffset(host, offset_ns, _):
                offsets[host] = offset_ns
            case TaskRecords(task, data):
                chunks.setdefault(task, []).append(data)
            case HostSamples(host, host_samples):
                samples.setdefault(host, []).extend(host_samples)
    step_tables = [_steps(task, hosts.get(task, "?"), b"".join(data), offsets) for task, data in sorted(chunks.items())]
    sample_tables = [
        _samples(host, host_samples, offsets.get(host, 0)) for host, host_samples in sorted(samples.items())
    ]
    return (
        pl.concat(step_tables) if step_tables else pl.DataFrame(schema=STEPS_SCHEMA),
        pl.concat(sample_tables) if sample_tables else pl.DataFrame(schema=SAMPLES_SCHEMA),
    )


def upgrade_table(table: pl.DataFrame, schema: dict[str, Any]) -> pl.DataFrame:
    """A table of any version with the current schema; task fields that an older version lacks are null."""
    return table.cast(pl.Schema(schema))


def _steps(task: str, host: str, data: bytes, offsets: dict[str, int]) -> pl.DataFrame:
    records = decode(data)
    kind_names = np.array([kind.name.lower() for kind in RecordKind])
    is_eval = records["kind"] == RecordKind.EVAL
    start_ns = records["start_ns"].astype(np.int64) + offsets.get(host, 0)
    return pl.DataFrame(
        {
            "task": pl.repeat(task, len(records), eager=True),
            "host": pl.repeat(host, len(records), eager=True),
            # A damaged kind must not be an index outside of the names.
            "kind": kind_names[np.minimum(records["kind"], len(kind_names) - 1)],
            "step": records["step"],
            "update": records["update"],
            "t_s": start_ns / 1e9,
            "duration_s": records["duration_ns"] / 1e9,
            "loss": records["loss"],
            "accuracy": np.where(is_eval, records["accuracy"], np.float32("nan")),
            "staleness": records["staleness"],
            "traced": (records["flags"] & TRACED) > 0,
            "final": (records["flags"] & FINAL) > 0,
        },
        schema=STEPS_SCHEMA,
    )


def _samples(host: str, samples: list[HostSample], offset_ns: int) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {
        "host": [host] * len(samples),
        "t_s": [(sample.t_ns + offset_ns) / 1e9 for sample in samples],
        "cpu_s": [sample.cpu_s for sample in samples],
        "cores_busy_s": [sample.cores_busy_s for sample in samples],
        "memory_bytes": [sample.memory_bytes for sample in samples],
        "disk_read_bytes": [sample.disk_read_bytes for sample in samples],
        "disk_write_bytes": [sample.disk_write_bytes for sample in samples],
        "tasks": [[structs.asdict(task) for task in sample.tasks] for sample in samples],
    }
    for side in ("external", "loopback"):
        counts: list[LinkCount] = [getattr(sample, side) for sample in samples]
        for count in _COUNTS:
            columns[f"{side}_{count}"] = [getattr(link, count) for link in counts]
    return pl.DataFrame(columns, schema=SAMPLES_SCHEMA)
