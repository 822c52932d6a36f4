"""Ties the life of a process to that of its parent."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""The option of prctl(2) that sets the signal which a process receives when its parent ends."""


def die_with_parent(parent: int | None = None) -> None:
    """On Linux, let the kernel kill this process when its parent ends; exits if `parent` has ended already.

    `parent` is the process that started this one; None takes the present parent. The kernel means the thread that
    started this process: the parent must start it in a thread that lives as long as the parent itself.
    """
    if sys.platform != "linux":
        return
    parent = parent or os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # The parent ended before prctl, so no signal will come.
        os._exit(0)
