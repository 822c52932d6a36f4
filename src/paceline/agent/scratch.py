"""The agent's private directory on a host that shares no file system with the controller.

A child process removes the directory when the agent has ended, also if the agent was killed.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from paceline.errors import RunError
from paceline.process_marks import AGENT_MARK

_PREFIX = "paceline-agent-"
_TEMPORARY = "TMPDIR"
"""The variable that names the folder for temporary files."""
_REMOVER = """
import shutil, sys
sys.stdin.buffer.read()
shutil.rmtree(sys.argv[1], ignore_errors=True)
# A task that was just killed may have written a file meanwhile.
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


def make_scratch(parent: str | None) -> Path:
    """A new directory that only this user can read; it is removed soon after this process has ended.

    Call it before any thread is started, because it forks. RunError if the directory cannot be made.
    """
    try:
        scratch = tempfile.mkdtemp(prefix=_PREFIX, dir=parent or None)
    except OSError as error:
        where = parent or "the folder for temporary files"
        raise RunError(
            f"cannot make a directory in {where}: {error.strerror}: name another folder as scratch"
        ) from None
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
    """Become a program that removes the directory when the agent has closed its end of the pipe. Never returns.

    A new program, because its environment must not have the mark by which the processes of a killed agent are killed.
    """
    try:
        os.setsid()  # A signal to the agent's process group must not end this process.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        # An ssh session ends only when nobody holds its streams any more.
        nothing = os.open(os.devnull, os.O_WRONLY)
        for descriptor, stream in ((agent_is_alive, 0), (nothing, 1), (nothing, 2)):
            os.dup2(descriptor, stream)
        unmarked = {name: value for name, value in os.environ.items() if name != AGENT_MARK}
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", _REMOVER, scratch], unmarked)
    finally:
        os._exit(1)
