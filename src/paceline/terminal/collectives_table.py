"""Draws the measurements of `paceline bench-collectives`."""

from collections.abc import Sequence

from rich.table import Table

from paceline.present import numbers
from paceline.terminal.tables import align_right, plain_table
from paceline.train.collectives import Measurement

_COLUMNS = (
    "operation",
    "by",
    "workers",
    "size",
    "latency (ms)",
    "fastest (ms)",
    "MB/s",
    "busiest link (MB/s)",
    "repeats",
)


def collectives_table(measurements: Sequence[Measurement]) -> Table:
    """One row per operation, number of workers and size."""
    table = plain_table(*_COLUMNS)
    align_right(table, *_COLUMNS[2:])
    for one in measurements:
        table.add_row(
            one.operation,
            one.carrier,
            str(one.workers),
            size_text(one.bytes),
            numbers.number(one.latency_s * 1e3),
            numbers.number(one.min_s * 1e3),
            numbers.number(one.bandwidth_mb_s),
            numbers.number(one.link_mb_s),
            str(one.repeats),
        )
    return table


def size_text(size: int) -> str:
    """1_000_000 -> `1 MB`."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size // scale} {unit}"
    return f"{size} B"
