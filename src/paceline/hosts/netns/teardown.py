"""Removes hosts from the machine: first their processes, then their namespaces and cgroups."""

import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paceline.hosts.netns import cgroup, iproute

_DEADLINE_S = 5.0


class TeardownResult(NamedTuple):
    """One line for each thing that was removed, and for each that could not be."""

    done: list[str]
    failed: list[str]


def teardown(namespaces: Sequence[str], groups: Sequence[Path]) -> TeardownResult:
    """Kill all processes in these namespaces and cgroups, then delete them; missing ones are ignored."""
    swept = TeardownResult([], [])
    deadline = time.monotonic() + _DEADLINE_S
    _kill_all(namespaces, groups, deadline, swept)
    for group in filter(Path.exists, groups):
        try:
            cgroup.remove(group, deadline)
            swept.done.append(f"removed cgroup {group.name}")
        except OSError as error:
            swept.failed.append(f"could not remove cgroup {group}: {error.strerror}")
    _delete(namespaces, swept)
    return swept


def processes(namespaces: Iterable[str], groups: Iterable[Path]) -> set[int]:
    """Every process in these namespaces and cgroups."""
    found = {pid for group in groups for pid in cgroup.processes(group)}
    # A name may refer to the machine's own namespace, whose processes must never be killed.
    ours = {_identity(f"{iproute.NAMESPACES}/{name}") for name in namespaces}
    ours -= {None, _identity("/proc/self/ns/net"), _identity("/proc/1/ns/net")}
    if ours:
        found |= {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _network_of(pid) in ours}
    return found - {0, os.getpid()}  # 0 stands for a process of another container.


def _kill_all(namespaces: Sequence[str], groups: Sequence[Path], deadline: float, swept: TeardownResult) -> None:
    killed: dict[int, str] = {}
    while alive := processes(namespaces, groups):
        if time.monotonic() > deadline:
            swept.failed.extend(f"could not kill process {pid} ({killed.pop(pid, '?')})" for pid in alive)
            break
        for pid in alive:
            killed.setdefault(pid, _command_of(pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            cgroup.thaw(pid)
        time.sleep(0.005)
    swept.done.extend(f"killed process {pid} ({command})" for pid, command in killed.items())


def _delete(namespaces: Sequence[str], swept: TeardownResult) -> None:
    there = [name for name in namespaces if _exists(name)]
    why = ""
    if there:
        try:
            iproute.batch("ip", [f"netns delete {name}" for name in there], force=True)
        except iproute.CommandError as error:
            why = f": {error}"
    for name in there:
        if _exists(name):
            swept.failed.append(f"could not remove namespace {name}{why}")
        else:
            swept.done.append(f"removed namespace {name}")


def _exists(namespace: str) -> bool:
    return os.path.lexists(f"{iproute.NAMESPACES}/{namespace}")


def _network_of(pid: str) -> tuple[int, int] | None:
    return _identity(f"/proc/{pid}/ns/net")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"
