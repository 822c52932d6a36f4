"""Cores and memory of the machines of a run.

A host, e.g. a network namespace, is on a machine, and several hosts may share one machine. When it joined the run, the
agent of each host reported the machine that it is on.
"""

from collections.abc import Mapping

import msgspec

from paceline.store.events import JoinedEvent
from paceline.store.run import StoredRun


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cores: int
    memory_mb: float


class Machines(msgspec.Struct, frozen=True, kw_only=True):
    by_host: Mapping[str, Machine]
    """The machine of each host that joined the run."""
    shared: bool
    """Whether all hosts are on one machine: then all hosts report the same machine, and it counts once."""
    cpu_limits: Mapping[str, float] = {}
    """Cores that the tasks of a host may use, for hosts with such a limit."""

    def cores(self, host: str) -> int:
        """Cores of the host's machine; 0 if the host never joined."""
        return self.by_host[host].cores if host in self.by_host else 0

    @property
    def total_cores(self) -> int:
        """Cores of all machines together; 0 if no host joined."""
        return int(self.total({host: machine.cores for host, machine in self.by_host.items()}))

    def total(self, by_host: Mapping[str, float]) -> float:
        """Sum of a value over all machines, from the value that each host reports for its machine."""
        return max(by_host.values(), default=0.0) if self.shared else sum(by_host.values())


def machines_of(run: StoredRun) -> Machines:
    """The machines of a stored run."""
    return Machines(
        by_host={
            event.host: Machine(cores=event.cores, memory_mb=event.memory_bytes / 1e6) for event in run.all(JoinedEvent)
        },
        shared=run.header.host_kind.shares_one_machine,
        cpu_limits={host: limits.cpus for host, limits in run.header.limits.items() if limits.cpus},
    )
