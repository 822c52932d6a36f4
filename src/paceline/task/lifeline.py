"""Ties a process's life to its parent's, as far as the system can."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Linux kills this process when its parent dies; elsewhere the closed pipe has to do."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def join_cgroups(procs_files: list[str]) -> None:
    for path in procs_files:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
