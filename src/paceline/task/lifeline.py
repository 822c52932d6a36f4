"""Ties the life of a task's process to its agent, as far as the operating system can, and puts it into its cgroups."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""The option of prctl(2) that sets the signal which a process receives when its parent ends."""


def die_with_parent() -> None:
    """On Linux, let the kernel kill this process when its parent ends.

    On other systems the process exits when it reads the end of the closed pipe (see channel.py).
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # The parent ended before prctl, so no signal will come.
        os._exit(0)


def join_cgroups(procs_files: list[str]) -> None:
    """Move this process into cgroups, each given as the path of its cgroup.procs file."""
    for path in procs_files:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
