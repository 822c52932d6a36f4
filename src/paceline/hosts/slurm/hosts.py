"""Hosts that are nodes of a Slurm cluster: each agent is a step of srun and speaks through its stdin and stdout."""

import ipaddress
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from paceline.errors import HostError, RunError
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest
from paceline.hosts.child_agent import start_agent
from paceline.hosts.remote_python import agent_script
from paceline.hosts.slurm.allocation import Allocation, new_allocation, surrounding_allocation
from paceline.hosts.slurm.commands import (
    ask,
    expand_nodes,
    find,
    in_job,
    job_state,
    last_line,
    node_field,
    run_step,
    step_argv,
)
from paceline.hosts.slurm.options import SlurmOptions, read_slurm_options
from paceline.ports import PortRange

_COMMANDS = ("srun", "salloc", "scancel", "scontrol", "sinfo", "squeue")
_ANY_NODE = "a node of Slurm"
_ADDRESS_TIMEOUT_S = 60.0


class SlurmHost(msgspec.Struct):
    name: str
    address: str
    job: str
    node: str
    options: SlurmOptions
    ports: PortRange | None = None

    def start_agent(self, log: Path) -> AgentPipes:
        script = agent_script(self.name, self.options.python, self.options.scratch)
        return start_agent(step_argv(in_job(self.job, self.node), script), log, None)

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} is a node of Slurm: its link and its cores cannot be changed from here")


class SlurmShell:
    """Implements prepare.Shell. Outside of an allocation, srun makes one for each script."""

    def __init__(self, label: str, flags: Sequence[str]) -> None:
        self.label, self._flags = label, flags

    def run(self, script: str, *, stdin: bytes, timeout_s: float) -> "subprocess.CompletedProcess[bytes]":
        answer = run_step(step_argv(self._flags, script), stdin=stdin, timeout_s=timeout_s)
        if answer is None:
            raise HostError(f"{self.label} did not answer within {timeout_s:.0f} s: try `srun --nodes=1 hostname`")
        return answer


class SlurmHosts(HostProvider):
    def __init__(self, argument: str | None = None) -> None:
        self._options = read_slurm_options(argument)

    def machines(self) -> list[str]:
        """The nodes of the allocation or of nodelist; otherwise only one, because Slurm chooses which nodes."""
        return list(self._known_nodes() or [_ANY_NODE])

    def trusted_network(self) -> bool:
        return self._options.trusted

    def shells(self) -> list[SlurmShell]:
        if self._options.python:
            raise HostError(
                "--hosts slurm sets python, but `prepare` makes an environment of its own: remove python, or install "
                "Paceline there yourself"
            )
        around = surrounding_allocation()
        if around:
            return [SlurmShell(node, in_job(around.job, node)) for node in self._nodes_of(around)]
        flags = self._options.flags()
        if nodes := self._known_nodes():
            return [SlurmShell(node, [*flags, f"--nodelist={node}"]) for node in nodes]
        return [SlurmShell(_ANY_NODE, flags)]

    def check(self, requests: Sequence[HostRequest]) -> None:
        for command in _COMMANDS:
            find(command)
        around = surrounding_allocation()
        if around:
            self._check_inside(around, len(requests))
        else:
            self._check_outside(len(requests))

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        around = surrounding_allocation()
        if around:
            yield self._hosts(around.job, self._nodes_of(around), requests)
        else:
            with new_allocation(token, len(requests), self._options) as made:
                yield self._hosts(made.job, made.nodes, requests)

    def _hosts(self, job: str, nodes: Sequence[str], requests: Sequence[HostRequest]) -> list[Host]:
        used = nodes[: len(requests)]
        return [
            SlurmHost(request.name, _address_of(job, node), job, node, self._options)
            for request, node in zip(requests, used, strict=True)
        ]

    def _known_nodes(self) -> Sequence[str]:
        if around := surrounding_allocation():
            return self._nodes_of(around)
        return expand_nodes(self._options.nodelist) if self._options.nodelist else ()

    def _nodes_of(self, around: Allocation) -> Sequence[str]:
        """The nodes of the allocation in which this process runs, or those of them that the user chose."""
        if not self._options.nodelist:
            return around.nodes
        chosen = expand_nodes(self._options.nodelist)
        for node in chosen:
            if node not in around.nodes:
                raise HostError(
                    f"--hosts slurm: nodelist has {node}, but job {around.job} has {', '.join(around.nodes)}: "
                    "choose some of these"
                )
        return chosen

    def _check_inside(self, around: Allocation, hosts: int) -> None:
        if extra := self._options.only_for_new_allocations():
            raise HostError(
                f"--hosts slurm: {', '.join(extra)} cannot be changed inside of job {around.job}: leave it out, or run "
                "paceline outside of the job to make a new allocation"
            )
        state = job_state(around.job)
        if state is None or state[0] != "RUNNING":
            said = "has ended" if state is None else f"is {state[0].lower()}"
            raise HostError(
                f"SLURM_JOB_ID is {around.job}, but that job {said}: leave its shell, or unset SLURM_JOB_ID to let "
                "paceline make an allocation"
            )
        nodes = self._nodes_of(around)
        if len(nodes) < hosts:
            raise HostError(
                f"the layout has {hosts} hosts, but job {around.job} has {len(nodes)} nodes to use: allocate more "
                f"nodes, e.g. salloc --nodes={hosts}, or use a layout with fewer hosts"
            )

    def _check_outside(self, hosts: int) -> None:
        if self._options.nodelist and len(expand_nodes(self._options.nodelist)) < hosts:
            raise HostError(
                f"the layout has {hosts} hosts, but nodelist={self._options.nodelist} has fewer: add nodes, or use a "
                "layout with fewer hosts"
            )
        sizes = _partition_sizes()
        if not sizes:
            raise HostError("Slurm has no partition that you can use: see `sinfo`")
        # Like Slurm, this accepts several partitions, separated by commas.
        wanted = self._options.allocation.get("partition")
        for name in wanted.split(",") if wanted else []:
            if name not in sizes:
                raise HostError(f"Slurm has no partition '{name}': choose from {', '.join(sorted(sizes))}")
        available = max(sizes[name] for name in wanted.split(",")) if wanted else max(sizes.values())
        if hosts > available:
            where = f"partition {wanted} has" if wanted else "the largest partition of Slurm has"
            raise HostError(
                f"the layout has {hosts} hosts, but {where} {available} nodes: use a layout with fewer hosts"
            )


def _partition_sizes() -> dict[str, int]:
    """The number of nodes of each partition."""
    sizes: dict[str, int] = {}
    for line in ask("sinfo", "--noheader", "--format=%R %D").splitlines():
        name, _, count = line.strip().rpartition(" ")
        if name and count.isdigit():
            sizes[name.strip()] = sizes.get(name.strip(), 0) + int(count)
    return sizes


def _address_of(job: str, node: str) -> str:
    """The address at which other nodes reach this one: what Slurm itself uses, or what the node says."""
    known = node_field(node, "NodeAddr") or node
    address = _resolve(known)
    if address and not ipaddress.ip_address(address).is_loopback:
        return address
    # A node often resolves its own name to 127.0.1.1, so a controller on that node has to ask for another address.
    answer = run_step(step_argv(in_job(job, node), "hostname -I"), stdin=b"", timeout_s=_ADDRESS_TIMEOUT_S)
    said = answer.stdout.decode(errors="replace").split() if answer and not answer.returncode else []
    if not said:
        detail = last_line(answer.stderr.decode(errors="replace")) if answer else "it does not answer"
        raise HostError(f"the address of node {node} ({known}) cannot be found: {detail}")
    return said[0]


def _resolve(name: str) -> str | None:
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return None
