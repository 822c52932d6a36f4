"""The controller's side of an agent on a node: pipes, and two threads that exchange their content with an actor."""

import os
import select
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from paceline.errors import one_line
from paceline.hosts.child_agent import widen_pipe
from paceline.hosts.ray.node_agent import Output

_READ_BYTES = 2**20
_START_S = 60.0
"""How long a node may take to start the process of an actor and the agent."""


class AgentActor(Protocol):
    """An actor of the class NodeAgent."""

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Call a method without waiting for its result."""
        ...

    def end(self) -> None:
        """End the process of the actor, and with it the agent, without waiting."""
        ...


class RelayError(Exception):
    """The actor did not answer; the text is one line."""


class RelayedAgent:
    """Implements AgentPipes for an agent that an actor starts on its node.

    No thread ever waits inside of Ray: a lost node would keep it there for more than a minute. `kill` wakes both.
    """

    def __init__(self, actor: AgentActor, arguments: Sequence[str], log: Path, start_s: float = _START_S) -> None:
        self._actor, self._log, self._start_s = actor, log, start_s
        self._killed: Future[None] = Future()
        self._ended = threading.Event()
        self._stdin_end, stdin = os.pipe()
        stdout, self._stdout_end = os.pipe()
        self._woken, self._wake = os.pipe()
        self.stdin: BinaryIO = os.fdopen(stdin, "wb")
        self.stdout: BinaryIO = os.fdopen(stdout, "rb")
        widen_pipe(self.stdin)
        widen_pipe(self.stdout)
        started = actor.call("start", list(arguments))
        self._input = threading.Thread(target=self._relay_input, args=(started,), name="relay-input", daemon=True)
        self._output = threading.Thread(target=self._relay_output, args=(started,), name="relay-output", daemon=True)
        self._input.start()
        self._output.start()

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def kill(self) -> None:
        """End the agent at once. Also works if its node does not answer."""
        with suppress(InvalidStateError):  # It is killed already.
            self._killed.set_result(None)

    def _relay_input(self, started: "Future[Any]") -> None:
        """Send what the controller writes, one piece at a time: what it writes meanwhile is the next piece."""
        try:
            self._result(started, self._start_s)
            while data := self._read_input():
                self._result(self._actor.call("write", data))
            self._result(self._actor.call("close_stdin"))
        except Exception:
            pass  # The other thread reports why the actor does not answer.
        finally:
            os.close(self._stdin_end)  # The controller must not wait for a pipe that nobody reads.

    def _read_input(self) -> bytes:
        """What the controller wrote; empty if it closed the pipe, or the agent has ended."""
        readable, _, _ = select.select([self._stdin_end, self._woken], [], [])
        return b"" if self._woken in readable else os.read(self._stdin_end, _READ_BYTES)

    def _relay_output(self, started: "Future[Any]") -> None:
        """Write what the agent writes to the controller's pipe and to the log, until the agent has ended."""
        try:
            self._result(started, self._start_s)
            ended = False
            while not ended:
                output = Output(*self._result(self._actor.call("read")))
                self._append_to_log(output.stderr)
                self._write_output(output.stdout)
                ended = output.ended
        except Exception as error:
            if not self._killed.done():
                self._append_to_log(f"{one_line(str(error))}\n".encode())
        finally:
            os.close(self._stdout_end)
            self._end()

    def _write_output(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # The controller has stopped listening.
            while data:
                data = data[os.write(self._stdout_end, data) :]

    def _end(self) -> None:
        self.kill()
        os.write(self._wake, b"!")
        self._input.join()
        for descriptor in (self._woken, self._wake):
            os.close(descriptor)
        with suppress(Exception):  # The cluster may be gone.
            self._actor.end()
        self._ended.set()

    def _result(self, call: "Future[Any]", timeout_s: float | None = None) -> Any:
        """The result of a call, as soon as it is there; RelayError if the agent is killed before, or time is over."""
        done, _ = wait((call, self._killed), timeout_s, return_when=FIRST_COMPLETED)
        if call in done:
            return call.result()
        raise RelayError("killed" if done else f"the node did not start an agent within {timeout_s:.0f} s")

    def _append_to_log(self, data: bytes) -> None:
        if data:
            with suppress(OSError), self._log.open("ab") as log:
                log.write(data)
