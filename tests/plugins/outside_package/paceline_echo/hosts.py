"""The kind of hosts `plain`: each host is a name, and its agent is a child process on this machine."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from paceline.errors import RunError
from paceline.hosts.base import AgentPipes, Condition, Host, HostKind, HostProvider, HostRequest
from paceline.hosts.child_agent import agent_argv

DESCRIPTOR = HostKind(
    summary="plain processes on this machine",
    # Loaded only when hosts of this kind are used: a larger kind keeps its provider in a module of its own.
    provider="paceline_echo.hosts:PlainHosts",
    shares_one_machine=True,
    # Its hosts communicate over loopback, which only this machine can reach.
    private_network=True,
)


class PlainHosts(HostProvider):
    """Makes the hosts of one run."""

    def __init__(self, argument: str | None) -> None:
        """`argument` is what follows `plain:`; there is none, because the descriptor declares none."""

    def check(self, requests: Sequence[HostRequest]) -> None:
        """A process can be started on any machine. Paceline has already refused limits that the kind lacks."""

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        yield [PlainHost(request.name) for request in requests]
        # Agents have ended by now, and hosts that are only names leave nothing to remove.


class PlainHost:
    def __init__(self, name: str) -> None:
        self.name = name
        self.address = "127.0.0.1"
        self.ports = None  # Tasks may listen on any port.

    def start_agent(self, log: Path) -> AgentPipes:
        # "machine": the network counters that the agent reads are those of the whole machine.
        return PlainAgent(agent_argv(self.name, network="machine"), log)

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} has no link or CPU share that could be changed")


class PlainAgent:
    """A running agent. The controller closes stdin to end it."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        with log.open("ab") as errors:
            # In a session of its own, so that Ctrl-C in the terminal reaches only the controller.
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self.stdin = cast(BinaryIO, self._process.stdin)
        self.stdout = cast(BinaryIO, self._process.stdout)

    def wait(self, timeout_s: float) -> bool:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
