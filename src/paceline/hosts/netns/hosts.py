"""Hosts that are network namespaces on this machine, joined by a switch, each with its own link and CPU limit."""

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgspec

from paceline.errors import HostError, RunError
from paceline.forkserver.client import ForkServer
from paceline.hosts.agent_template import agent_template, prepare_template
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest, Preload
from paceline.hosts.child_agent import agent_argv, start_agent
from paceline.hosts.netns import cgroup, iproute, leftovers, reaper, run_lock, setup

# The name of a host is also the name of a network interface, which has at most 15 characters.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,14}")
_COMMANDS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
_REAPER_END_S = 10.0


class NetnsHost(setup.CreatedHost):
    template: ForkServer | None = None

    def start_agent(self, log: Path) -> AgentPipes:
        argv = agent_argv(self.name, network="host", cgroups=self.cgroups)
        path = f"{iproute.NAMESPACES}/{self.namespace}"
        return start_agent(argv, log, self.template, network_namespace=path, enter=enter(self.namespace, []))

    def apply_condition(self, condition: Condition) -> None:
        try:
            setup.apply_condition(self, condition)
        except (iproute.CommandError, OSError) as error:
            raise RunError(f"{self.name} cannot be changed: {error}") from None


class NetnsHosts(HostProvider):
    def __init__(self, argument: str | None = None) -> None:
        """A namespace needs no argument."""

    def check(self, requests: Sequence[HostRequest]) -> None:
        _check_machine()
        names = [request.name for request in requests]
        for request in requests:
            _check_name(request.name, names)
            _check_cpus(request.cpus)
            if "slow" in request.faults:
                _check_groups("fault slow")
            limited_by_fault = "fault limit" if "limit" in request.faults else None
            option = "--link" if request.link_bits_s is not None else limited_by_fault
            if option and not _kernel_has("tbf rate 1mbit burst 5000 latency 50ms"):
                raise HostError(
                    f"{option} needs the kernel's tbf queue: load the module sch_tbf, or leave {option} out"
                )
            if request.latency_s and not _kernel_has("netem delay 1ms"):
                raise HostError(
                    "--latency needs the kernel's netem queue: load the module sch_netem, or choose no latency with "
                    "--set latency=-"
                )

    def prepare(self, preload: Preload) -> None:
        prepare_template(preload)

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", reaper.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C and a closed terminal must not end it.
        )
        lock = None
        try:
            with agent_template(requests) as template:
                hosts = _create_hosts(process, token, requests)
                lock = run_lock.join(token)
                yield [msgspec.structs.replace(host, template=template) for host in hosts]
        finally:
            _stop_reaper(process, lock)

    def leftovers(self) -> list[str]:
        return [str(left) for left in leftovers.find()]

    def clean(self) -> list[str]:
        return leftovers.clean(leftovers.find())


def enter(namespace: str, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` inside a namespace.

    `ip netns exec` would mount a new /sys without the cgroups that tasks have to join.
    """
    return [iproute.find("nsenter") or "nsenter", f"--net={iproute.NAMESPACES}/{namespace}", "--", *argv]


def _create_hosts(process: subprocess.Popen[bytes], token: str, requests: Sequence[HostRequest]) -> list[NetnsHost]:
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):  # If it ended at once, its missing reply is reported below.
        process.stdin.write(msgspec.json.encode(reaper.ReaperRequest(token, list(requests))) + b"\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise HostError(f"the hosts cannot be created: the reaper process ended with code {process.wait()}")
    reply = msgspec.json.decode(line, type=reaper.ReaperReply)
    if reply.error:
        raise HostError(reply.error)
    return [NetnsHost(**msgspec.structs.asdict(created)) for created in reply.hosts]


def _stop_reaper(process: subprocess.Popen[bytes], lock: run_lock.LockHandle | None) -> None:
    """Let the reaper remove the hosts; remove them here only if it fails."""
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    try:
        code = process.wait(_REAPER_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if lock:
        lock.close()
    if code:
        leftovers.clean_after_reaper(process.pid)


def _check_machine() -> None:
    if sys.platform != "linux":
        raise HostError("--hosts netns needs Linux network namespaces: use --hosts local here")
    if os.geteuid() != 0:
        raise HostError(
            "--hosts netns needs root to make network namespaces: use sudo, a user namespace (unshare --user "
            "--map-root-user; see Networks and limits in the documentation), or --hosts local"
        )
    for command, package in _COMMANDS.items():
        if iproute.find(command) is None:
            raise HostError(f"--hosts netns needs the command '{command}': install {package}, or use --hosts local")
    if not _in_new_namespace("ip", "link"):
        raise HostError(
            "--hosts netns may not make network namespaces here: "
            "in a container allow CAP_SYS_ADMIN and CAP_NET_ADMIN, or use --hosts local"
        )


def _check_name(name: str, names: Sequence[str]) -> None:
    if not _NAME.fullmatch(name) or name in setup.RESERVED:
        raise HostError(f"'{name}' cannot name a host: use at most 15 of a-z, 0-9 and -, e.g. h1")
    if names.count(name) > 1:
        raise HostError(f"two hosts are called '{name}': give each a name of its own")


def _check_cpus(cpus: float | None) -> None:
    if cpus is None:
        return
    if not cgroup.MIN_CPUS <= cpus < math.inf:
        raise HostError(f"--cpus {cpus:g} is no usable share of a core: give {cgroup.MIN_CPUS} or more, e.g. 0.5")
    _check_groups("--cpus")


def _check_groups(option: str) -> None:
    hierarchy = cgroup.cpu_hierarchy()
    obstacle = hierarchy.obstacle() if hierarchy else "none is mounted under /sys/fs/cgroup"
    if obstacle:
        raise HostError(f"{option} needs a cpu cgroup, but {obstacle}: mount one writable, or leave {option} out")


@cache
def _kernel_has(queue: str) -> bool:
    return _in_new_namespace("tc", *f"qdisc add dev lo root {queue}".split())


@cache
def _in_new_namespace(command: str, *arguments: str) -> bool:
    """Whether a command succeeds in a temporary network namespace."""
    argv = [iproute.find("unshare") or "unshare", "--net", iproute.find(command) or command, *arguments]
    return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
