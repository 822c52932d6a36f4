"""Hosts that are machines of their own: each agent is started by an ssh connection and speaks through it."""

import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from paceline.errors import HostError, RunError
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest
from paceline.hosts.child_agent import ChildAgent, start_agent
from paceline.hosts.remote_python import agent_script
from paceline.hosts.ssh.client import (
    EXIT_CONNECTION_FAILED,
    error_line,
    remote_argv,
    run_script,
    shell_error_line,
    ssh_command,
)
from paceline.hosts.ssh.inventory import Machine, read_inventory
from paceline.ports import PortRange

_CONNECTIONS_AT_ONCE = 8
"""A gateway that all connections pass refuses more (MaxStartups of sshd is 10)."""
_ATTEMPTS = 4
_CONNECT_TIMEOUT_S = 60.0
_RETRY_WORDS = (b"Connection reset", b"Connection closed", b"kex_exchange_identification", b"Broken pipe")
"""What ssh prints if the server, or a gateway on the way, has too many connections at this moment."""
_ADDRESS_MARK = "paceline-address:"


class SshHost(msgspec.Struct):
    name: str
    address: str
    machine: Machine
    ports: PortRange | None = None

    def start_agent(self, log: Path) -> AgentPipes:
        """Start the agent; returns when the machine has answered, or the connection has failed for good."""
        argv = remote_argv(self.machine, agent_script(self.name, self.machine.python, self.machine.scratch))
        for attempt in range(_ATTEMPTS):
            size_before = log.stat().st_size if log.exists() else 0
            agent = start_agent(argv, log, None)
            if _has_answered(agent) or not _may_retry(log, size_before) or attempt == _ATTEMPTS - 1:
                break
            agent.wait(_CONNECT_TIMEOUT_S)
            time.sleep(0.5 * 2**attempt)
        return agent

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} is a machine of its own: its link and its cores cannot be changed from here")


class SshShell:
    """Implements prepare.Shell."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self.label = machine, machine.label

    def run(self, script: str, *, stdin: bytes, timeout_s: float) -> "subprocess.CompletedProcess[bytes]":
        answer = run_script(self._machine, script, stdin=stdin, timeout_s=timeout_s)
        if answer.returncode == EXIT_CONNECTION_FAILED:
            raise HostError(error_line(self._machine, answer.stderr))
        return answer


class SshHosts(HostProvider):
    def __init__(self, argument: str | None = None) -> None:
        self._inventory = read_inventory(argument)

    def machines(self) -> list[str]:
        return [machine.label for machine in self._inventory.machines]

    def trusted_network(self) -> bool:
        return self._inventory.trusted_network

    def shells(self) -> list[SshShell]:
        for machine in self._inventory.machines:
            if machine.python:
                raise HostError(
                    f"{self._inventory.source} sets python for {machine.label}, but `prepare` makes an environment of "
                    "its own: remove python, or install Paceline there yourself"
                )
        return [SshShell(machine) for machine in self._inventory.machines]

    def restricts_ports(self) -> bool:
        return any(machine.ports for machine in self._inventory.machines)

    def check(self, requests: Sequence[HostRequest]) -> None:
        ssh_command()
        available = len(self._inventory.machines)
        if len(requests) > available:
            raise HostError(
                f"the layout has {len(requests)} hosts, but {self._inventory.source} has {available}: "
                "add machines, or use a layout with fewer hosts"
            )

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        machines = self._inventory.machines[: len(requests)]
        with ThreadPoolExecutor(_CONNECTIONS_AT_ONCE) as pool:
            addresses = list(pool.map(_address_of, machines))
        yield [
            SshHost(request.name, address, machine, machine.ports)
            for request, address, machine in zip(requests, addresses, machines, strict=True)
        ]


def _address_of(machine: Machine) -> str:
    """The address at which other machines reach this one. Also shows early that the machine can be reached at all."""
    # SSH_CONNECTION is: client address, client port, server address, server port.
    script = f"set -- $SSH_CONNECTION; echo {_ADDRESS_MARK}$3"
    for attempt in range(_ATTEMPTS):
        answer = run_script(machine, script, timeout_s=_CONNECT_TIMEOUT_S)
        if answer.returncode != EXIT_CONNECTION_FAILED or not any(words in answer.stderr for words in _RETRY_WORDS):
            break
        time.sleep(0.5 * 2**attempt)
    if answer.returncode == EXIT_CONNECTION_FAILED:
        raise HostError(error_line(machine, answer.stderr))
    if answer.returncode:
        raise HostError(shell_error_line(machine, answer.returncode, answer.stdout + answer.stderr))
    lines = answer.stdout.decode(errors="replace").splitlines()
    found = next((line.removeprefix(_ADDRESS_MARK) for line in reversed(lines) if line.startswith(_ADDRESS_MARK)), "")
    address = machine.address or found
    if not address:
        raise HostError(f"{machine.label} does not say at which address it is reached: set address in the inventory")
    return address


def _has_answered(agent: ChildAgent) -> bool:
    """Wait for the first byte of the agent; False if the connection ended or nothing came."""
    poll = select.poll()
    poll.register(agent.stdout, select.POLLIN)
    ready = poll.poll(_CONNECT_TIMEOUT_S * 1000)
    return any(event & select.POLLIN for _, event in ready)


def _may_retry(log: Path, size_before: int) -> bool:
    with log.open("rb") as file:
        file.seek(size_before)
        said = file.read(64 * 1024)
    return any(words in said for words in _RETRY_WORDS)
