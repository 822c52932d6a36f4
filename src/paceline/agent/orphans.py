"""Ends the processes that tasks leave behind, such as a child in a session of its own.

On Linux the agent becomes the parent of every process below it whose own parent has ended. Elsewhere only the
environment of a process tells where it comes from.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator

import psutil

from paceline.process_marks import AGENT_MARK, TASK_MARK, descendants, kill_all, marked_processes

_ADOPTS = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
"""The option of prctl(2) that makes a process the parent of orphans among its descendants."""


def adopt_orphans() -> None:
    """Become the parent of processes whose parent, a task or a process below it, ends."""
    if _ADOPTS:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_orphans_of_task(mark: str) -> None:
    """Kill what a process of a task has left behind; `mark` is the value of TASK_MARK in its environment.

    A process that has cleared its environment stays until the agent ends: it may belong to another task.
    """
    # On Linux an orphan is a child of this agent, so that no other process needs to be looked at.
    kill_all(lambda: marked_processes(TASK_MARK, mark, psutil.Process().children() if _ADOPTS else None))


def kill_all_below() -> None:
    """Kill every process that this agent or one of its tasks has started."""
    kill_all(_all_below)


def _all_below() -> Iterator[psutil.Process]:
    this, mark = psutil.Process(), os.environ.get(AGENT_MARK)
    yield from descendants(this)
    if mark and not _ADOPTS:
        yield from (process for process in marked_processes(AGENT_MARK, mark) if process != this)


class ZombieReaper:
    """Reaps orphans that have ended, which would stay in the process table until the agent ends."""

    def __init__(self) -> None:
        self._seen_before: int | None = None

    def reap(self, own: Iterable[int]) -> None:
        """Reap one orphan that had ended at the last call already. `own` are children that others wait for.

        A process that was started a moment ago may not be in `own` yet; after a second call it is.
        """
        if not _ADOPTS:
            return
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended and ended.si_pid == self._seen_before and ended.si_pid not in own:
                os.waitpid(ended.si_pid, os.WNOHANG)
            self._seen_before = ended.si_pid if ended else None
        except ChildProcessError:
            self._seen_before = None
