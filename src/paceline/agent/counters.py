"""What a host can be asked for its counters; one answer for Linux, one for every other system."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from paceline.messages import LinkCount

T = TypeVar("T")
Deferred: TypeAlias = Callable[[], T]
"""Read now; what it says is made out when there is time: many at once cost a fraction of as many one by one."""


class Links(NamedTuple):
    external: LinkCount
    loopback: LinkCount


class ProcessCount(NamedTuple):
    """Counters of one process since it started, with those of its children it has waited for."""

    cpu_s: float
    rss_bytes: int
    threads: int
    read_bytes: int
    write_bytes: int


class ProcessCounters(Protocol):
    pid: int

    def read(self) -> Deferred[ProcessCount] | None:
        """None once the process is gone."""
        ...

    def run_wait_s(self) -> float | None:
        """Seconds its threads were ready but waited for a core; None if the system does not say. Slow."""
        ...

    def children(self) -> list[int]:
        """Its living descendants; slower than `read`."""
        ...

    def close(self) -> None: ...


class HostCounters(Protocol):
    def cores_busy_s(self) -> Deferred[list[float]]: ...

    def links(self) -> Deferred[Links]: ...

    def process(self, pid: int) -> ProcessCounters | None:
        """None if there is no such process."""
        ...
