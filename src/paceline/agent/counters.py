"""Interfaces to the counters of a host and of its processes: `procfs.py` for Linux, `portable.py` for other systems."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from paceline.agent.cpu_quota import QuotaPeriods
from paceline.messages import LinkCount

T = TypeVar("T")
Deferred: TypeAlias = Callable[[], T]
"""Text that was read already and is parsed when this is called: parsing many in one batch costs a fraction of parsing
each one right after it was read."""
_COUNTERS = len(LinkCount.__struct_fields__)


class LinkCounts(NamedTuple):
    external: LinkCount
    loopback: LinkCount


class InterfaceTotals:
    """Sums the counters of network interfaces. The sums never fall: an interface that is removed keeps its part, and
    one that is added counts from then on."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, ...]] | None = None
        self._external, self._loopback = [0] * _COUNTERS, [0] * _COUNTERS

    def update(self, interfaces: Iterable[tuple[str, tuple[int, ...]]]) -> LinkCounts:
        """`interfaces`: the name of each, and its counters in the order of LinkCount."""
        last, now = self._last, dict(interfaces)
        for name, counts in now.items():
            total = self._loopback if name.startswith("lo") else self._external
            before = (0,) * _COUNTERS if last is None else last.get(name, counts)
            # A counter is smaller than before if the interface was replaced by one with the same name.
            total[:] = [old + max(0, new - base) for old, new, base in zip(total, counts, before, strict=True)]
        self._last = now
        return LinkCounts(LinkCount(*self._external), LinkCount(*self._loopback))


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
