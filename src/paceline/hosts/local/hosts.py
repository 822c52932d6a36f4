"""Hosts that are only names: every agent is a plain process on this machine. Works on any operating system."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from paceline.errors import RunError
from paceline.forkserver.client import ForkServer
from paceline.hosts.agent_template import agent_template, prepare_template
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest, Preload
from paceline.hosts.child_agent import agent_argv, start_agent
from paceline.ports import PortRange


class LocalHost(msgspec.Struct):
    name: str
    template: ForkServer | None = None
    address: str = "127.0.0.1"
    ports: PortRange | None = None

    def start_agent(self, log: Path) -> AgentPipes:
        return start_agent(agent_argv(self.name, network="machine"), log, self.template)

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} is a name on this machine: it has no link or CPU share that could be changed")


class LocalHosts(HostProvider):
    def __init__(self, argument: str | None = None) -> None:
        """A local host needs no argument."""

    def check(self, requests: Sequence[HostRequest]) -> None:
        """Every machine can start processes."""

    def prepare(self, preload: Preload) -> None:
        prepare_template(preload)

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        with agent_template(requests) as template:
            yield [LocalHost(request.name, template) for request in requests]
