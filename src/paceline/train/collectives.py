"""What `paceline bench-collectives` measures: sizes, operations, and how times become bandwidths. Without any I/O."""

from collections.abc import Mapping, Sequence
from math import ceil, log2
from statistics import median
from typing import Literal

import msgspec

from paceline.train.context import Job

SIZES = (
    1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000, 16_000_000, 64_000_000, 256_000_000, 1_000_000_000,
)  # fmt: skip
"""In bytes; all are multiples of 4, the size of a value."""
Operation = Literal["all-reduce", "broadcast", "pull", "push+pull"]
OPERATIONS: Mapping[Operation, str] = {
    "all-reduce": "gloo",
    "broadcast": "gloo",
    "pull": "parameter server",
    "push+pull": "parameter server",
}
"""Each operation with what carries it out."""
MAX_REPEATS = 200
_MIN_REPEATS = 3
GIVE_UP_AFTER = 10
"""If one repeat takes this many times the budget, larger sizes are left out."""
Times = dict[Operation, dict[int, list[float]]]
"""Seconds of each repeat by operation and size."""


class Order(msgspec.Struct, frozen=True):
    """What the tasks measure."""

    sizes: tuple[int, ...]
    budget_s: float
    """About how long to repeat each operation with each size."""

    def as_options(self) -> dict[str, str]:
        return {"collectives": msgspec.json.encode(self).decode()}

    @classmethod
    def of(cls, job: Job) -> "Order":
        return msgspec.json.decode(job.options["collectives"], type=cls)

    def repeats(self, longest_s: float) -> int:
        """How often to repeat an operation that took the slowest worker so long."""
        return max(_MIN_REPEATS, min(MAX_REPEATS, int(self.budget_s / max(longest_s, 1e-9))))


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One operation with one size among some workers."""

    workers: int
    operation: Operation
    carrier: str
    """gloo or parameter server."""
    bytes: int
    """Of the vector that every worker has."""
    repeats: int
    latency_s: float
    """Median over the repeats of the time until the last worker was done."""
    min_s: float
    bandwidth_mb_s: float
    """Size divided by latency."""
    link_mb_s: float
    """What the busiest link carried in one direction, divided by latency. Compare this with the rate of the link."""


def smaller_sizes(max_bytes: int) -> tuple[int, ...]:
    return tuple(size for size in SIZES if size <= max_bytes)


def measurements(times: Sequence[Times]) -> list[Measurement]:
    """The measurements by the times of all workers: a repeat ends when the last worker is done."""
    found = []
    for operation, by_size in times[0].items():
        for size in by_size:
            repeats = [max(ends) for ends in zip(*(one[operation][size] for one in times), strict=True)]
            found.append(_measurement(operation, size, len(times), repeats))
    return found


def _measurement(operation: Operation, size: int, workers: int, repeats: Sequence[float]) -> Measurement:
    latency = median(repeats)
    return Measurement(
        workers=workers,
        operation=operation,
        carrier=OPERATIONS[operation],
        bytes=size,
        repeats=len(repeats),
        latency_s=latency,
        min_s=min(repeats),
        bandwidth_mb_s=size / latency / 1e6,
        link_mb_s=size * _copies_on_busiest_link(operation, workers) / latency / 1e6,
    )


def _copies_on_busiest_link(operation: Operation, workers: int) -> float:
    """How often the vector crosses the busiest link in one direction, with one worker on each host."""
    match operation:
        case "all-reduce":  # A ring: every worker sends all parts but its own twice.
            return 2 * (workers - 1) / workers
        case "broadcast":  # A binomial tree: the root sends to one worker in each round.
            return ceil(log2(workers))
        case "pull" | "push+pull":  # The server is on the host of the first worker, which needs no link.
            return workers - 1
