"""Finds the processes of a run by an environment variable that every process inherits, and kills them.

The parent, the group and the session of a process do not tell which run it belongs to: it may have left all of them.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator

import psutil

AGENT_MARK = "PACELINE_AGENT_MARK"
"""The environment variable of an agent and of everything below it."""
TASK_MARK = "PACELINE_TASK_MARK"
"""The environment variable of one process of a task and of everything that it starts."""
KILL_S = 2.0
"""How long to wait for killed processes to end."""


def new_mark() -> str:
    """A value that no other process has."""
    return secrets.token_hex(8)


def marked_processes(
    variable: str, mark: str, among: Iterable[psutil.Process] | None = None
) -> Iterator[psutil.Process]:
    """The processes with this mark `among` these, or among all that this user may see, and all their descendants."""
    for process in among if among is not None else psutil.process_iter():
        if _has_mark(process, variable, mark):
            yield process
            yield from descendants(process)


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """The processes below a process that have not ended."""
    try:
        return [child for child in process.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    except psutil.Error:
        return []


def kill_all(find: Callable[[], Iterable[psutil.Process]], timeout_s: float = KILL_S) -> None:
    """Kill what `find` returns until it returns nothing: a process may start another one before it is killed."""
    end_s = time.monotonic() + timeout_s
    while (found := list(find())) and time.monotonic() < end_s:
        for process in found:
            try:
                process.kill()
            except psutil.Error:
                continue  # It has ended, or belongs to another user.
        psutil.wait_procs(found, timeout=max(0.0, end_s - time.monotonic()))


def _has_mark(process: psutil.Process, variable: str, mark: str) -> bool:
    try:
        return bool(process.environ().get(variable) == mark)
    except (psutil.Error, OSError):
        return False
