"""The contract of a kind of host: start one agent per host and hand back its pipes."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec


class HostRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan asks of one host."""

    name: str
    link_bits_s: int | None = None
    """Rate of the host's link, each way; None is as fast as it goes."""
    latency_s: float | None = None
    """Delay added to what the host sends."""
    cpus: float | None = None
    """Cores the host's tasks may use together; None is all of them."""
    faults: frozenset[str] = frozenset()
    """What will be done to it while it lives: cut, limit, slow."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What a living host is held to."""

    linked: bool = True
    """False: its link is cut, both ways."""
    link_bits_s: int | None = None
    cpus: float | None = None


class AgentPipes(Protocol):
    """A running agent as the controller sees it."""

    stdin: BinaryIO
    stdout: BinaryIO

    def wait(self, timeout_s: float) -> bool:
        """Whether the agent is gone within that time."""
        ...

    def kill(self) -> None: ...


class Host(Protocol):
    name: str
    address: str
    """Where the other hosts reach this one."""

    def start_agent(self, log: Path) -> AgentPipes:
        """Start the agent; its own complaints (stderr) go to `log`."""
        ...

    def apply_condition(self, condition: Condition) -> None:
        """Change it while it lives, within the `faults` it was requested for; RunError if that does not work."""
        ...


class HostKind(Protocol):
    summary: str
    shares_one_machine: bool
    """True if all hosts' tasks compete for the same cores."""
    shares_memory: bool
    """True if the hosts are neighbours, between which values may pass through memory and not the network."""

    has_links: bool
    """True if what hosts send each other goes over links of their own, which can be full."""

    def check(self, wanted: Sequence[HostRequest]) -> None:
        """Raise HostError, in one line, if these hosts cannot be had here."""
        ...

    def open(self, token: str, wanted: Sequence[HostRequest]) -> AbstractContextManager[list[Host]]:
        """Make the hosts; leaving the context removes every trace of them.

        `token` names this run's hosts on the machine ([a-z0-9-], at most 24 characters).
        """
        ...
