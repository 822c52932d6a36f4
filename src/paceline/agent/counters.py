"""Interfaces to the counters of a host and of its processes: `procfs.py` for Linux, `portable.py` for other systems."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from paceline.agent.cpu_quota import QuotaPeriods
from paceline.messages import LinkCount

T = TypeVar("T")
Deferred: TypeAlias = Callable[[], T]
"""Text that was read already and is parsed when this is called: parsing many in one batch costs a fraction of parsing
each one right after it was read."""


class LinkCounts(NamedTuple):
    external: LinkCount
    loopback: LinkCount


class ProcessCount(NamedTuple):
    """Counters of one process since it started, including those of ended children it has waited for."""

    cpu_s: float
    rss_bytes: int
    threads: int
    read_bytes: int
    write_bytes: int


class ProcessCounters(Protocol):
    pid: int

    def read(self) -> Deferred[ProcessCount] | None:
        """The counters as of now; None once the process has ended."""
        ...

    def run_wait_s(self) -> float | None:
        """Seconds its threads were runnable but waited for a core; None if the system does not count it. Slow."""
        ...

    def quota_periods(self) -> QuotaPeriods | None:
        """Periods of the CPU limit that it shares with the other tasks of the host; None without such a limit."""
        ...

    def children(self) -> list[int]:
        """PIDs of its living descendants. Slower than `read`."""
        ...

    def close(self) -> None: ...


class MachineState(NamedTuple):
    """What is read of the machine as a whole, about once a second."""

    load_average: float | None
    """Average number of threads that ran or waited for a core or a disk in the last minute."""
    memory_free_bytes: int | None
    """What programs can still get without swapping."""


class HostCounters(Protocol):
    def cores_busy_s(self) -> Deferred[list[float]]:
        """Busy seconds of each core since boot."""
        ...

    def links(self) -> Deferred[LinkCounts]:
        """Bytes and packets of the network interfaces since boot."""
        ...

    def machine(self) -> MachineState:
        """Load average and free memory of the machine; slower than the counters."""
        ...

    def process(self, pid: int) -> ProcessCounters | None:
        """None if there is no process with this PID."""
        ...
