"""The loop of a fork server: forks a process for each request and reports its exit code."""

import gc
import os
import select
import signal
import socket
import struct
from typing import NoReturn

from paceline.forkserver import child, protocol
from paceline.forkserver.lifeline import die_with_parent

EXIT_CODE = struct.Struct("<i")
"""How an exit code is written to the pipe of its process."""


def serve(connection: socket.socket, *, children_die_with_server: bool, obstacle: str | None = None) -> NoReturn:
    """Fork processes until the client closes the connection, then end this process.

    `obstacle` is why this process must not be forked; None if it may.
    """
    gc.collect()
    gc.freeze()  # A collection in a forked process would write to every object, and so copy the memory of all.
    protocol.send(connection, protocol.Ready(obstacle))
    _Server(connection, children_die_with_server).run()
    os._exit(0)


class _Server:
    def __init__(self, connection: socket.socket, children_die_with_server: bool) -> None:
        self._connection = connection
        self._children_die_with_server = children_die_with_server
        self._exit_pipes: dict[int, int] = {}
        """By PID: where the exit code of a running child is written to."""
        self._child_ended, self._wakeup = os.pipe()
        os.set_blocking(self._child_ended, False)
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        while True:
            ready, _, _ = select.select([self._connection.fileno(), self._child_ended], [], [])
            if self._child_ended in ready:
                os.read(self._child_ended, 4096)
                self._report_exits()
            if self._connection.fileno() in ready:
                received = protocol.receive(self._connection)
                if received is None:
                    return
                request, descriptors = received
                assert isinstance(request, protocol.ForkRequest)
                self._fork(request, descriptors)

    def _fork(self, request: protocol.ForkRequest, descriptors: list[int]) -> None:
        *stdio, exit_pipe = descriptors
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(exit_pipe)
            protocol.send(self._connection, protocol.ForkFailed(error.errno or 0, error.strerror or str(error)))
        else:
            if pid == 0:
                self._become_child(request, stdio, exit_pipe, server)
            self._exit_pipes[pid] = exit_pipe
            pidfd = os.pidfd_open(pid)
            protocol.send(self._connection, protocol.Forked(pid), [pidfd])
            os.close(pidfd)
        for descriptor in stdio:
            os.close(descriptor)

    def _become_child(self, request: protocol.ForkRequest, stdio: list[int], exit_pipe: int, server: int) -> NoReturn:
        if self._children_die_with_server:
            die_with_parent(server)
        child.reset_signals()
        self._connection.close()
        for descriptor in (self._child_ended, self._wakeup, exit_pipe, *self._exit_pipes.values()):
            os.close(descriptor)
        child.run_command(request.argv, stdio, request.network_namespace, request.variables)

    def _report_exits(self) -> None:
        for pid in list(self._exit_pipes):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                pipe = self._exit_pipes.pop(pid)
                os.write(pipe, EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))
                os.close(pipe)


def find_obstacle() -> str | None:
    """Why this process cannot be forked; None if it can.

    A thread would not exist in a forked process, while the locks that it holds would stay locked. OpenBLAS ends its
    threads before each fork and starts them when it needs them, so threads are counted after a first fork.
    """
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    threads = len(os.listdir("/proc/self/task"))
    return f"it has {threads} threads" if threads > 1 else None
