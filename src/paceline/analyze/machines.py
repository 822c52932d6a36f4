"""The machines that a run's hosts are on, as each host's agent described its own when it joined."""

from collections.abc import Mapping

import msgspec

from paceline.store.events import JoinedEvent
from paceline.store.run import StoredRun


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cores: int
    memory_mb: float


class Machines(msgspec.Struct, frozen=True, kw_only=True):
    by_host: Mapping[str, Machine]
    """Of each host that joined."""
    shared: bool
    """Whether all hosts are on one machine: then every host describes the same one, and it counts once."""

    def cores(self, host: str) -> int:
        """Of the host's machine; 0 if the host never joined."""
        return self.by_host[host].cores if host in self.by_host else 0

    @property
    def total_cores(self) -> int:
        """Of all machines together; 0 if no host joined."""
        return int(self.total({host: machine.cores for host, machine in self.by_host.items()}))

    def total(self, by_host: Mapping[str, float]) -> float:
        """The sum of a number over all machines, given what each host reports of its own."""
        return max(by_host.values(), default=0.0) if self.shared else sum(by_host.values())


def machines_of(run: StoredRun) -> Machines:
    """From the run's header and events."""
    return Machines(
        by_host={
            event.host: Machine(cores=event.cores, memory_mb=event.memory_bytes / 1e6) for event in run.all(JoinedEvent)
        },
        shared=run.header.host_kind.shares_one_machine,
    )
