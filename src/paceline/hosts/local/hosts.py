"""Hosts that are only names: every agent is a plain process on this machine. Works on any operating system."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from paceline.errors import RunError
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest
from paceline.hosts.child_agent import ChildAgent, agent_argv


class LocalHost(msgspec.Struct):
    name: str
    address: str = "127.0.0.1"

    def start_agent(self, log: Path) -> AgentPipes:
        return ChildAgent(agent_argv(self.name, network="machine"), log)

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} is a name on this machine: it has no link or CPU share that could be changed")


class LocalHosts(HostProvider):
    def __init__(self, argument: str | None = None) -> None:
        """A local host needs no argument."""

    def check(self, requests: Sequence[HostRequest]) -> None:
        """Every machine can start processes."""

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        yield [LocalHost(request.name) for request in requests]
