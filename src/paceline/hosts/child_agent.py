"""An agent that is a child process of the controller."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform == "linux":
    import fcntl

_SHIPMENT_BYTES = 512 * 1024


class ChildAgent:
    """Implements AgentPipes for a child process. The agent ends by itself when its stdin is closed."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        with log.open("ab") as stderr:
            # In a session of its own, because only the controller handles Ctrl-C on the terminal.
            self._process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        assert self._process.stdin
        assert self._process.stdout
        self.pid = self._process.pid
        self.stdin: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self.stdout: BinaryIO = self._process.stdout  # type: ignore[assignment]
        _widen(self.stdout)

    def wait(self, timeout_s: float) -> bool:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        self._process.kill()


def _widen(pipe: BinaryIO) -> None:
    """Make the pipe large enough for one shipment: otherwise agent and controller wake each other for every 64 KiB."""
    if sys.platform == "linux":
        with suppress(OSError):  # The system limits how many large pipes a user may have.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _SHIPMENT_BYTES)


def agent_argv(name: str, *, network: str, cgroups: Sequence[str] = ()) -> list[str]:
    """The command that starts an agent; `cgroups` are the cgroup.procs files that each of its tasks joins."""
    argv = [sys.executable, "-m", "paceline.agent", "--host", name, "--network", network]
    for path in cgroups:
        argv += ["--cgroup", path]
    return argv
