"""Hosts that are only names: every agent is a plain process on this machine. Works on any OS."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from paceline.errors import HostError, RunError
from paceline.hosts.base import AgentPipes, Condition, Host, HostRequest
from paceline.hosts.child_agent import ChildAgent, agent_argv


class LocalHost(msgspec.Struct):
    name: str
    address: str = "127.0.0.1"

    def start_agent(self, log: Path) -> AgentPipes:
        return ChildAgent(agent_argv(self.name, network="machine"), log)

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} is a name on this machine and has nothing of its own to change")


class LocalHosts:
    summary = "plain processes on this machine, talking over loopback"
    shares_one_machine = True
    shares_memory = True
    has_links = False

    def check(self, wanted: Sequence[HostRequest]) -> None:
        for request in wanted:
            for flag, value in (
                ("--link", request.link_bits_s),
                ("--latency", request.latency_s),
                ("--cpus", request.cpus),
            ):
                if value is not None:
                    raise HostError(f"{flag} needs hosts of their own: add --hosts netns (Linux, root)")
            for fault in sorted(request.faults):
                raise HostError(
                    f"fault '{fault} {request.name} …' needs hosts of their own: add --hosts netns (Linux, root)"
                )

    @contextmanager
    def open(self, token: str, wanted: Sequence[HostRequest]) -> Iterator[list[Host]]:
        yield [LocalHost(request.name) for request in wanted]
