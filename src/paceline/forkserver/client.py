"""The client of a fork server: starts it, asks it for processes, and waits for them."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

from paceline.forkserver import child, protocol, server
from paceline.forkserver.lifeline import die_with_parent

_RESERVED_BYTES = 2048
"""Space for the command line of a forked process, see `child.show_command`."""


class ForkServerLost(OSError):
    """The fork server has ended, or cannot fork: start the process in another way."""


def supported() -> bool:
    """Whether this system has what a fork server needs."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # Linux before 5.3, or a sandbox that does not allow it.
        return False
    return True


class ForkedProcess:
    """A process that a fork server has started; has the methods of subprocess.Popen that Paceline uses."""

    def __init__(self, pid: int, pidfd: int, exit_pipe: int, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._pidfd, self._exit_pipe = pidfd, exit_pipe
        self._lock = threading.Lock()

    def __del__(self) -> None:
        os.close(self._pidfd)
        os.close(self._exit_pipe)

    def poll(self) -> int | None:
        """The exit code as subprocess gives it; None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when the process has ended; subprocess.TimeoutExpired if it has not within `timeout`."""
        end = None if timeout is None else time.monotonic() + timeout
        if self.returncode is None:
            _wait_readable(self._exit_pipe, end, timeout)
            with self._lock:
                if self.returncode is None and (data := os.read(self._exit_pipe, server.EXIT_CODE.size)):
                    (self.returncode,) = server.EXIT_CODE.unpack(data)
        if self.returncode is None:
            # The fork server was killed, so nobody knows the exit code. A process that dies with it was killed, too.
            _wait_readable(self._pidfd, end, timeout)
            self.returncode = -signal.SIGKILL
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; without effect if the process has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """A running fork server. It ends when `close` is called or this process ends."""

    def __init__(self, connection: socket.socket, process: "subprocess.Popen[bytes] | None" = None) -> None:
        self._connection, self._process = connection, process
        self._is_ready = False
        self._lost: str | None = None
        """Why it can no longer be used."""
        self._lock = threading.Lock()

    @classmethod
    def start(cls, modules: Sequence[str], environment: Mapping[str, str]) -> "ForkServer":
        """Start a fork server that imports these modules in this environment; does not wait until it has."""
        ours, theirs = protocol.connected_pair()
        command = [sys.executable, "-m", "paceline.forkserver", f"--client={os.getpid()}"]
        with theirs:
            # What modules print is not shown: if they cannot be imported, the processes that need them report it.
            process = subprocess.Popen(
                [*command, f"--socket={theirs.fileno()}", f"--reserve={'-' * _RESERVED_BYTES}", *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=dict(environment),
                start_new_session=True,
            )
        return cls(ours, process)

    @classmethod
    def fork(cls) -> "ForkServer":
        """Fork this process, which must have no other threads, as a fork server of its own.

        The fork server and all processes that it starts end with this process.
        """
        ours, theirs = protocol.connected_pair()
        parent = os.getpid()
        if os.fork() == 0:
            die_with_parent(parent)
            ours.close()
            with open(os.devnull, "r+b", buffering=0) as nothing:
                os.dup2(nothing.fileno(), 0)
                os.dup2(nothing.fileno(), 1)
            child.show_command([sys.executable, "-m", "paceline.forkserver", f"--of={parent}"])
            server.serve(theirs, children_die_with_server=True)
        theirs.close()
        return cls(ours)

    @property
    def usable(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._lost is None and (self._process is None or self._process.poll() is None)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        stderr: BinaryIO,
        network_namespace: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Start `python -m MODULE ARGUMENTS` in a session of its own; ForkServerLost if the fork server is gone.

        `variables` are added to its environment. Only programs that it starts show them in /proc.
        """
        stdin_read, stdin_write = os.pipe()
        stdout_read, stdout_write = os.pipe()
        exit_read, exit_write = os.pipe()
        own, its = [stdin_write, stdout_read, exit_read], [stdin_read, stdout_write, exit_write]
        try:
            request = protocol.ForkRequest(list(argv), network_namespace, dict(variables or {}))
            pid, pidfd = self._request(request, [stdin_read, stdout_write, stderr.fileno(), exit_write])
        except BaseException:
            for descriptor in own:
                os.close(descriptor)
            raise
        finally:
            for descriptor in its:
                os.close(descriptor)
        return ForkedProcess(pid, pidfd, exit_read, os.fdopen(stdin_write, "wb"), os.fdopen(stdout_read, "rb"))

    def close(self) -> None:
        """End the fork server. Processes that it has started go on, unless it was made by `fork`."""
        self._connection.close()
        if self._process:
            self._process.kill()  # It may be importing modules, which takes long, and has nothing to clean up.
            self._process.wait()

    def _request(self, request: protocol.ForkRequest, descriptors: Sequence[int]) -> tuple[int, int]:
        with self._lock:
            if self._lost:
                raise ForkServerLost(self._lost)
            if not self._is_ready:
                self._wait_until_ready()
            try:
                protocol.send(self._connection, request, descriptors)
            except (BrokenPipeError, ConnectionResetError):
                raise self._lose("the fork server has ended") from None
            packet, received = self._receive()
        if isinstance(packet, protocol.ForkFailed):
            raise OSError(packet.errno, packet.reason)
        assert isinstance(packet, protocol.Forked)
        return packet.pid, received[0]

    def _wait_until_ready(self) -> None:
        ready, _ = self._receive()
        assert isinstance(ready, protocol.Ready)
        if ready.obstacle:
            raise self._lose(f"the fork server cannot fork: {ready.obstacle}")
        self._is_ready = True

    def _receive(self) -> tuple[protocol.Packet, list[int]]:
        received = protocol.receive(self._connection)
        if received is None:
            raise self._lose("the fork server has ended")
        return received

    def _lose(self, reason: str) -> ForkServerLost:
        self._lost = reason
        return ForkServerLost(reason)


def _wait_readable(descriptor: int, end: float | None, timeout: float | None) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(None if end is None else max(0.0, end - time.monotonic()) * 1000):
        raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
