"""The agent's private directory on a host that shares no file system with the controller.

A child process removes the directory when the agent has ended, also if the agent was killed.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PREFIX = "paceline-agent-"
_TEMPORARY = "TMPDIR"
"""The variable that names the folder for temporary files."""


def make_scratch(parent: str | None) -> Path:
    """A new directory that only this user can read; it is removed soon after this process has ended.

    Call it before any thread is started, because it forks.
    """
    scratch = tempfile.mkdtemp(prefix=_PREFIX, dir=parent or None)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        # The grandchild has no parent that could wait for it or kill it with the rest of the agent's processes.
        if os.fork() == 0:
            os.close(write_end)
            _remove_after_agent(scratch, read_end)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(read_end)
    os.set_inheritable(write_end, False)  # Tasks must not keep it open.
    return Path(scratch)


def private_folders(scratch: Path, variables: Iterable[str]) -> dict[str, str]:
    """Folders in the directory: one for temporary files, and one for each variable that the user has not set."""
    folders = {}
    for variable in (_TEMPORARY, *(name for name in variables if name not in os.environ)):
        folder = scratch / variable.lower()
        folder.mkdir(mode=0o700, exist_ok=True)
        folders[variable] = str(folder)
    return folders


def _remove_after_agent(scratch: str, agent_is_alive: int) -> None:
    """Wait until the agent has closed its end of the pipe by ending, and remove the directory. Never returns."""
    try:
        os.setsid()  # A signal to the agent's process group must not end this process.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _close_standard_streams()
        with suppress(OSError):
            os.read(agent_is_alive, 1)
        shutil.rmtree(scratch, ignore_errors=True)
        # A task that was just killed may have written a file meanwhile.
        shutil.rmtree(scratch, ignore_errors=True)
    finally:
        os._exit(0)


def _close_standard_streams() -> None:
    """An ssh session ends only when nobody holds its streams any more."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
