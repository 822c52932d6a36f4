"""An agent that is a child process of the controller."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from paceline.forkserver.client import ForkedProcess, ForkServer, ForkServerLost
from paceline.process_marks import AGENT_MARK, kill_all, marked_processes, new_mark

if sys.platform == "linux":
    import fcntl

_SHIPMENT_BYTES = 512 * 1024


class ChildAgent:
    """Implements AgentPipes for a process on this machine. The agent ends by itself when its stdin is closed."""

    def __init__(self, process: "subprocess.Popen[bytes] | ForkedProcess", mark: str) -> None:
        """`mark` is the value of AGENT_MARK in the environment of the agent."""
        assert process.stdin
        assert process.stdout
        self._process, self._mark = process, mark
        self.pid = process.pid
        self.stdin: BinaryIO = process.stdin  # type: ignore[assignment]
        self.stdout: BinaryIO = process.stdout  # type: ignore[assignment]
        widen_pipe(self.stdout)

    def wait(self, timeout_s: float) -> bool:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        if self._process.returncode:
            # It was killed, so it could not end the processes that its tasks had started.
            kill_all(lambda: marked_processes(AGENT_MARK, self._mark))
        return True

    def kill(self) -> None:
        self._process.kill()


def start_agent(
    argv: Sequence[str],
    log: Path,
    template: ForkServer | None,
    *,
    network_namespace: str | None = None,
    enter: Sequence[str] = (),
) -> ChildAgent:
    """Start an agent, from the template if there is one; `enter` is a command that enters the network namespace."""
    mark = new_mark()
    marks = {AGENT_MARK: mark}
    with log.open("ab") as stderr:
        # In a session of its own, because only the controller handles Ctrl-C on the terminal.
        if template:
            try:
                forked = template.spawn(argv, stderr=stderr, network_namespace=network_namespace, variables=marks)
                return ChildAgent(forked, mark)
            except ForkServerLost as error:
                stderr.write(f"the agent is started as a new program: {error}\n".encode())
        command = [*enter, *argv]
        program = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, **marks},
            start_new_session=True,
        )
        return ChildAgent(program, mark)


def widen_pipe(pipe: BinaryIO) -> None:
    """Make the pipe large enough for one shipment: otherwise agent and controller wake each other for every 64 KiB."""
    if sys.platform == "linux":
        with suppress(OSError):  # The system limits how many large pipes a user may have.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _SHIPMENT_BYTES)


def agent_argv(name: str, *, network: str, cgroups: Sequence[str] = ()) -> list[str]:
    """The command that starts an agent on this machine."""
    return [sys.executable, "-m", "paceline.agent", *agent_arguments(name, network=network, cgroups=cgroups)]


def agent_arguments(name: str, *, network: str, cgroups: Sequence[str] = ()) -> list[str]:
    """The arguments of `python -m paceline.agent`; its tasks join `cgroups`, which are paths of cgroup.procs files."""
    arguments = ["--host", name, "--network", network]
    for path in cgroups:
        arguments += ["--cgroup", path]
    return arguments
