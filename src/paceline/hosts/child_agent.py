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
    """Implements AgentPipes over a Popen. Closing stdin is the polite way to end it."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        with log.open("ab") as complaints:
            # Its own session: a Ctrl-C on the terminal is the controller's to handle.
            self._process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
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
    """Room for all that an agent ships at a time: else it and the controller wake each other up for every 64 KiB."""
    if sys.platform == "linux":
        with suppress(OSError):  # A user may have only so many wide pipes.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _SHIPMENT_BYTES)


def agent_argv(name: str, *, network: str, cgroups: Sequence[str] = ()) -> list[str]:
    """The command of an agent; `cgroups` are cgroup.procs files each of its tasks joins."""
    argv = [sys.executable, "-m", "paceline.agent", "--host", name, "--network", network]
    for path in cgroups:
        argv += ["--cgroup", path]
    return argv
