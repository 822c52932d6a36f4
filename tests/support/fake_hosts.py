"""Hosts without processes, for tests of the controller: each has a fake agent whose tasks follow a script.

The controller gets the same pipes and the same messages as from a real agent.
"""

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from paceline.engines.registry import engines
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest
from paceline.messages import (
    Attached,
    Bound,
    DumpStacks,
    Finished,
    Go,
    Halt,
    Hello,
    Peers,
    Ping,
    Pong,
    Ready,
    Receiver,
    Records,
    Sender,
    SendToTask,
    Signal,
    Stacks,
    StartTask,
    TaskExited,
    TaskMessage,
    TaskStarted,
    ToAgent,
)
from paceline.messages.framing import write_start_marker
from paceline.messages.link_probe import LinkMeasurement, LinksMeasured, MeasureLinks
from paceline.train.context import Outcome
from paceline.versions import installed_version

TaskScript = Callable[["FakeTask"], None]
"""What a task does after the barrier has opened."""


def finish(task: "FakeTask") -> None:
    """The script of a task that finishes immediately."""
    now = time.monotonic_ns()
    outcome = Outcome(steps=10, started_ns=now, ended_ns=now + 10**9, updates=10, loss=0.5, accuracy=0.9)
    task.send_finished(outcome)
    task.exit(0)


def serve_until_halted(task: "FakeTask") -> None:
    """The script of a server, which ends only when it receives Halt."""


WAITING_STACKS = (
    "Current thread 0x00007f00 (most recent call first):\n"
    '  File "/paceline/engines/fake.py", line 1 in wait_for_others\n'
)
"""The stacks that a task reports if a test gives none."""


def _hello(host: str, cores: int) -> Hello:
    """What the agent of a host with the same software as this machine sends."""
    return Hello(
        host,
        pid=0,
        cores=cores,
        memory_bytes=2**30,
        network="machine",
        python=platform.python_version(),
        paceline=installed_version(["paceline"]),
        engines={name: engine.version for name, engine in engines().items()},
    )


class FakeTask:
    """A task that sends what its script tells it to send."""

    def __init__(self, name: str, up: Sender) -> None:
        self.name, self._up, self.alive = name, up, True

    def send_finished(self, outcome: Outcome) -> None:
        self._up.send(TaskMessage(self.name, Finished(msgspec.Raw(msgspec.msgpack.encode(outcome)))))

    def send_attached(self, kind: str, name: str, data: bytes) -> None:
        self._up.send(TaskMessage(self.name, Attached(kind, name, data, last=True)))

    def send_records(self, data: bytes) -> None:
        self._up.send(Records(self.name, data))

    def exit(self, code: int) -> None:
        if self.alive:
            self.alive = False
            self._up.send(TaskExited(self.name, code, time.monotonic_ns()))


class FakeHost:
    """One host; `scripts` and `stacks` are by task name."""

    def __init__(
        self,
        name: str,
        scripts: dict[str, TaskScript],
        stacks: dict[str, str],
        changes: list[tuple[str, Condition]],
        cores: int,
    ) -> None:
        self.name, self.address, self._scripts, self._stacks = name, "fake", scripts, stacks
        self._changes, self._cores, self.ports = changes, cores, None

    def start_agent(self, log: Path) -> AgentPipes:
        return FakeAgent(self.name, self._scripts, self._stacks, self._cores)

    def apply_condition(self, condition: Condition) -> None:
        self._changes.append((self.name, condition))


class FakeAgent:
    """An agent in a thread, connected to the controller by pipes."""

    def __init__(self, host: str, scripts: dict[str, TaskScript], stacks: dict[str, str], cores: int) -> None:
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        self.stdin: BinaryIO = os.fdopen(down_write, "wb")
        self.stdout: BinaryIO = os.fdopen(up_read, "rb")
        self._input, self._output = os.fdopen(down_read, "rb"), os.fdopen(up_write, "wb")
        self._host, self._scripts, self._stacks, self._cores = host, scripts, stacks, cores
        self._up = Sender(self._output)
        self._tasks: dict[str, FakeTask] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """Do nothing: the thread ends when its pipe closes."""

    def _serve(self) -> None:
        commands = Receiver[ToAgent](self._input, ToAgent)
        with suppress(OSError), self._input, self._output:
            write_start_marker(self._output)
            self._up.send(_hello(self._host, self._cores))
            while (message := commands.receive()) is not None:
                self._handle(message)

    def _handle(self, message: ToAgent) -> None:
        match message:
            case Ping(sequence):
                self._up.send(Pong(sequence, time.monotonic_ns()))
            case StartTask(name):
                self._tasks[name] = FakeTask(name, self._up)
                self._up.send(TaskStarted(name, 0))
                self._up.send(TaskMessage(name, Bound({})))
            case SendToTask(name, Peers()):
                self._up.send(TaskMessage(name, Ready()))
            case SendToTask(name, Go()):
                self._scripts.get(name, finish)(self._tasks[name])
            case SendToTask(name, MeasureLinks(receivers)):
                found = tuple(LinkMeasurement(receiver=one, rtt_s=1e-4, mb_s=100.0) for one in receivers)
                self._up.send(TaskMessage(name, LinksMeasured(found)))
            case SendToTask(name, Halt()):
                self._tasks[name].send_finished(Outcome(steps=1))
                self._tasks[name].exit(0)
            case DumpStacks():
                for task in self._tasks.values():
                    if task.alive:
                        self._up.send(Stacks(task.name, self._stacks.get(task.name, WAITING_STACKS), "sleeping"))
            case Signal(name, number):
                self._tasks[name].exit(-number)


class FakeHosts(HostProvider):
    """A kind of hosts that starts no processes."""

    def __init__(
        self,
        scripts: dict[str, TaskScript] | None = None,
        stacks: dict[str, str] | None = None,
        cores: dict[str, int] | None = None,
    ) -> None:
        """`scripts` are what tasks do and `stacks` what they report on DumpStacks, both by task name.

        `cores` are those of each host's machine, by host; 2 if not given.
        """
        self._scripts, self._stacks, self._cores = scripts or {}, stacks or {}, cores or {}
        self.changes: list[tuple[str, Condition]] = []
        """The conditions applied to hosts, in order."""

    def check(self, requests: Sequence[HostRequest]) -> None:
        """Accept every request."""

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        yield [
            FakeHost(request.name, self._scripts, self._stacks, self.changes, self._cores.get(request.name, 2))
            for request in requests
        ]
