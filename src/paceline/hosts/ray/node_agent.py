"""What runs on a node as a Ray actor: it starts the agent as a child process and relays its streams.

The class is plain Python: the driver makes it an actor with two threads, so that a call that waits for output does not
delay input. In each direction there is one call at a time.
"""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Literal, NamedTuple

from paceline.hosts.child_agent import ChildAgent
from paceline.process_marks import AGENT_MARK, new_mark

_READ_BYTES = 2**20
_MAX_WAITING = 8
"""Pieces of output that wait to be read. The agent then waits, as it does for a full pipe."""
_END_S = 10.0
Stream = Literal["stdout", "stderr"]


class Output(NamedTuple):
    """What the agent has written since the last call, in its order within each stream."""

    stdout: bytes
    stderr: bytes
    ended: bool
    """Whether the agent has ended; no output follows."""


class NodeAgent:
    """One agent of this node. The agent ends, with all its tasks, when the process of the actor ends."""

    def __init__(self) -> None:
        self._agent: ChildAgent | None = None
        self._output: queue.Queue[tuple[Stream, bytes]] = queue.Queue(_MAX_WAITING)

    def start(self, arguments: Sequence[str]) -> None:
        """Start the agent, with these arguments of `python -m paceline.agent`."""
        # Ray sets this to the number of CPUs of the actor, which is one: tasks decide on their threads themselves.
        os.environ.pop("OMP_NUM_THREADS", None)
        mark = new_mark()
        program = subprocess.Popen(
            [sys.executable, "-m", "paceline.agent", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, AGENT_MARK: mark},
            start_new_session=True,
        )
        self._agent = ChildAgent(program, mark)
        for stream, pipe in (("stdout", program.stdout), ("stderr", program.stderr)):
            threading.Thread(target=self._collect, args=(stream, pipe), name=stream, daemon=True).start()

    def write(self, data: bytes) -> None:
        """Write to the agent's stdin. Nothing happens if the agent has ended: `read` reports that."""
        assert self._agent
        with suppress(OSError, ValueError):
            self._agent.stdin.write(data)
            self._agent.stdin.flush()

    def close_stdin(self) -> None:
        """Let the agent end."""
        assert self._agent
        with suppress(OSError):
            self._agent.stdin.close()

    def read(self) -> Output:
        """Wait for output, and return all that is there."""
        assert self._agent
        parts: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}
        stream, data = self._output.get()
        parts[stream].append(data)
        ended = stream == "stdout" and not data
        with suppress(queue.Empty):
            while not ended:
                stream, data = self._output.get_nowait()
                parts[stream].append(data)
                ended = stream == "stdout" and not data
        if ended:
            self._wait_for_end(parts)
        return Output(b"".join(parts["stdout"]), b"".join(parts["stderr"]), ended)

    def _wait_for_end(self, parts: dict[Stream, list[bytes]]) -> None:
        """Wait until the agent has ended and its stderr, which says why, has been read."""
        assert self._agent
        if not self._agent.wait(_END_S):
            self._agent.kill()
            self._agent.wait(_END_S)
        with suppress(queue.Empty):
            # A process that the agent left behind may keep stderr open, so that it has no end.
            while (piece := self._output.get(timeout=1)) != ("stderr", b""):
                parts[piece[0]].append(piece[1])

    def _collect(self, stream: Stream, pipe: IO[bytes]) -> None:
        """Put what the agent writes into the queue; an empty piece marks the end."""
        data = b" "
        while data:
            data = os.read(pipe.fileno(), _READ_BYTES)
            self._output.put((stream, data))
