"""What controller, agents and tasks do with bytes on their pipes that none of them sent."""

import io
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from fake_hosts import FakeAgent, FakeHosts, serve_until_told
from fuzz.mutations import mutants, quick_and_thorough
from live import gone
from paceline import messages as p
from paceline.agent.tasks import RunningTask
from paceline.control.events import End
from paceline.control.interrupts import Interrupts
from paceline.control.run_controller import execute
from paceline.control.validate_message import invalid_reason
from paceline.data.dataset import PreparedData
from paceline.hosts.base import AgentPipes, Condition, Host, HostRequest
from paceline.messages import FrameError, FromAgent, FromTask, Receiver, Sender, ToAgent, ToTask
from paceline.pipeline import catalog, header_of
from paceline.plan.place import RunPlan, place
from paceline.recording.layout import RECORD_BYTES
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.store.header import ResumePoint
from paceline.store.run import StoredRun
from paceline.store.writer import RunWriter
from paceline.task.link_probe import LinkOrder
from paceline.train.context import Outcome

SAMPLE = p.HostSample(
    1, 0.5, [1.0, 2.0], 10, p.LinkCount(1, 2, 3, 4), p.LinkCount(), 5, 6, [p.TaskSample("w0", 0.1, 9, 3, 0.2)]
)
RAW = msgspec.Raw(msgspec.msgpack.encode(Outcome(steps=10, updates=10)))
FROM_TASKS: list[p.Message] = [
    p.Bound({"a": "b"}), p.Ready(), p.Finished(RAW), p.Failed("it failed", "Traceback"),
    p.Attached("checkpoint", "x", b"data", True),
]  # fmt: skip
FROM_AGENTS: list[p.Message] = [
    p.Hello("h1", 1, 2, 3, "host"), p.Pong(1, 2), p.TaskStarted("w0", 5), p.TaskExited("w1", -9, 5),
    p.Records("w0", bytes(2 * RECORD_BYTES)), p.Log("w0", b"text"), p.Samples([SAMPLE]),
    *(p.TaskMessage("w0", said) for said in FROM_TASKS),  # type: ignore[arg-type]
]  # fmt: skip
TO_AGENTS: list[p.Message] = [
    p.Setup("/nowhere", 10.0), p.Ping(1), p.StartTask("w0", RAW, {"a": "b"}), p.Signal("w0", 9),
    *(p.SendToTask("w0", told) for told in (p.Peers({"w0": {"a": "b"}}), p.Go(), p.Halt(), p.MayExit())),
]  # fmt: skip
PIPES: dict[str, tuple[Any, list[p.Message]]] = {
    "agent to controller": (FromAgent, FROM_AGENTS),
    "controller to agent": (ToAgent, TO_AGENTS),
    "task to agent": (FromTask, FROM_TASKS),
    "agent to task": (ToTask, [p.Peers({"w0": {"a": "b"}}), p.Go(), p.Halt(), p.MayExit()]),
}


def sent(*messages: p.Message) -> bytes:
    stream = io.BytesIO()
    for message in messages:
        Sender(stream).send(message)
    return stream.getvalue()


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + body


def deep(levels: int) -> bytes:
    """An outcome that is a list in a list in a list."""
    return framed(b"\x92" + msgspec.msgpack.encode("Finished") + b"\x91" * levels + b"\xc0")


@pytest.mark.parametrize("pipe", PIPES)
@quick_and_thorough()
def test_any_bytes_are_messages_the_end_or_a_frame_error(pipe: str, cases: int) -> None:
    kind, messages = PIPES[pipe]
    good = [sent(message) for message in messages]
    refused = 0
    # Of every other one the length is right, so that what is in the frame is looked at.
    for number, data in enumerate(mutants(good, cases)):
        receiver = Receiver[Any](io.BytesIO(framed(data[4:]) if number % 2 else data), kind)
        try:
            while receiver.receive() is not None:
                pass
        except FrameError:
            refused += 1
    assert refused > cases / 4


@pytest.mark.parametrize("levels", [1_000, 100_000, 10_000_000])
def test_lists_in_lists_without_end_are_a_frame_error(levels: int) -> None:
    """Once they were a RecursionError, which ended the thread that listened, and nobody was told."""
    with pytest.raises(FrameError):
        Receiver[FromTask](io.BytesIO(deep(levels)), FromTask).receive()


def test_room_is_made_for_what_comes_and_not_for_what_is_announced() -> None:
    with open(os.devnull, "rb") as nothing:
        stream = _Chained([(p.MAX_FRAME_BYTES - 1).to_bytes(4, "little"), b"x" * 100], nothing)
        tracemalloc.start()
        try:
            assert Receiver[FromAgent](stream, FromAgent).receive() is None  # type: ignore[arg-type]
            assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
        finally:
            tracemalloc.stop()


class _Chained:
    """A pipe that makes room for all that is asked for, as buffered ones do."""

    def __init__(self, parts: list[bytes], end: io.BufferedReader) -> None:
        self._parts, self._end = parts, end

    def read(self, size: int) -> bytes:
        bytearray(size)
        return self._parts.pop(0)[:size] if self._parts else self._end.read(size)


# ---- a real agent ----

GARBAGE = [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, framed(b"\x93\xa4Ping\x01" + b"\x91" * 5_000), framed(b"\xc1")]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_an_agent_that_hears_garbage_ends_with_its_tasks_and_says_why(tmp_path: Path, garbage: bytes) -> None:
    command = [sys.executable, "-m", "paceline.agent", "--host", "h1", "--network", "machine"]
    log = tmp_path / "log"
    with log.open("wb") as complaints:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints)
    assert agent.stdin
    assert agent.stdout
    try:
        # A task that waits for orders that never come.
        link = LinkOrder(host="h1", address="127.0.0.1", ring=("h1", "h2"), token="x")
        order = p.StartTask("link-h1", msgspec.Raw(msgspec.msgpack.encode(link)), {}, "link")
        agent.stdin.write(sent(p.Setup(str(tmp_path / "spool"), 0.0), order))
        agent.stdin.flush()
        says = Receiver[FromAgent](agent.stdout, FromAgent)  # type: ignore[arg-type]
        started = next(said for said in iter(says.receive, None) if isinstance(said, p.TaskStarted))
        family = [psutil.Process(started.pid)] if psutil.pid_exists(started.pid) else []
        agent.stdin.write(garbage)
        agent.stdin.flush()
        assert agent.wait(10) == 1
        gone(family, 5)
        assert "FrameError" in log.read_text()
    finally:
        agent.kill()
        agent.stdin.close()
        agent.stdout.close()


# ---- an agent, and a task that speaks nonsense ----


@pytest.mark.parametrize("nonsense", [b"Hello, world\n", deep(5_000), b"\xff\xff\xff\xff"])
def test_a_task_that_speaks_nonsense_is_ended_and_named(
    tmp_path: Path, nonsense: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = f"import sys, time; sys.stdout.buffer.write({nonsense!r}); sys.stdout.flush(); time.sleep(60)"
    monkeypatch.setattr("paceline.agent.tasks._training_command", lambda *_: [sys.executable, "-c", talk])
    up = io.BytesIO()
    order = p.StartTask("w0", RAW, {})
    task = RunningTask(order, tmp_path, [], os.environ, Sender(up), lambda _name: None)
    task.join(timeout_s=30)
    assert not task.alive
    up.seek(0)
    said, exited = iter(Receiver[FromAgent](up, FromAgent).receive, None)
    assert isinstance(said, p.TaskMessage)
    assert isinstance(said.message, p.Failed)
    assert "not a valid message" in said.message.user_line
    assert isinstance(exited, p.TaskExited)


# ---- the controller, and an agent that lies ----


class MadHosts(FakeHosts):
    """Like hosts that play a script, but the agent of the first says something else once its tasks train."""

    def __init__(self, madness: bytes) -> None:
        super().__init__({"ps0": serve_until_told, "w1": serve_until_told})
        self._madness = madness

    @contextmanager
    def open(self, token: str, wanted: Sequence[HostRequest]) -> Iterator[list[Host]]:
        with super().open(token, wanted) as hosts:
            yield [MadHost(host, self._madness) if host.name == "h1" else host for host in hosts]


class MadHost:
    def __init__(self, host: Host, madness: bytes) -> None:
        self.name, self.address, self._host, self._madness = host.name, host.address, host, madness

    def apply_condition(self, condition: Condition) -> None:
        self._host.apply_condition(condition)

    def start_agent(self, log: Path) -> AgentPipes:
        agent = self._host.start_agent(log)
        assert isinstance(agent, FakeAgent)
        calm = agent._handle

        def handle(message: ToAgent) -> None:
            calm(message)
            if isinstance(message, p.SendToTask) and isinstance(message.message, p.Go) and message.task == "w0":
                agent._says.write(self._madness)
                agent._says.flush()
                raise BrokenPipeError  # And it is gone: it might else have the controller wait for the rest of a frame.

        agent._handle = handle  # type: ignore[method-assign]
        agent._scripts = {"w0": serve_until_told, "ps0": serve_until_told}
        return agent


@pytest.fixture
def plan() -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", "strategy": "ps-sync", "layout": "pw w"}))
    return place(spec, catalog())


Play = Callable[[bytes], tuple[End, RunWriter]]


@pytest.fixture
def play(plan: RunPlan, tmp_path: Path) -> Play:
    def run(madness: bytes) -> tuple[End, RunWriter]:
        writer = RunWriter(tmp_path / "runs", "test", plan)
        ready = PreparedData(paths=("", "", "", ""), source="none", synthetic=True)
        writer.header(header_of(plan, ready, ResumePoint(), clock_zero_ns=writer.zero_ns))
        end = execute(plan, MadHosts(madness), ready, writer, lambda _moment: None, Interrupts())
        writer.close()
        writer.release()
        return end, writer

    return run


HOME = {"ps0": "h1", "w0": "h1", "w1": "h2"}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (p.Records("w1", bytes(96)), "a message about 'w1'"),
        (p.Log("../../../tmp/x", b"text"), "which does not run there"),
        (p.TaskExited("w1", 0, 5), "a message about 'w1'"),
        (p.TaskStarted("w1", 5), "a message about 'w1'"),
        (p.TaskMessage("w7", p.Ready()), "a message about 'w7'"),
        (p.TaskMessage("w0", p.Finished(msgspec.Raw(b"\x01"))), "cannot be read"),
        (p.TaskMessage("w0", p.Attached("checkpoint", "../x", b"", True)), "invalid name '../x'"),
        (p.Records("w0", b"xyz"), "3 bytes as records"),
        (p.Samples([msgspec.structs.replace(SAMPLE, cpu_s=float("nan"))]), "not a finite number"),
        (p.Hello("h2", 1, 2, 3, "host"), "claims to be 'h2'"),
    ],
)
def test_what_an_agent_cannot_know_or_do_is_not_believed(message: FromAgent, says: str) -> None:
    assert says in str(invalid_reason("h1", message, HOME))


def test_what_agents_really_say_is_believed() -> None:
    home = dict.fromkeys(("w0", "w1"), "h1")
    assert [invalid_reason("h1", message, home) for message in FROM_AGENTS] == [None] * len(FROM_AGENTS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("madness", "says"),
    [(b"\xff" * 100, "announces"), (sent(p.Log("../../../tmp/x", b"text")), "which does not run there")],
)
def test_an_agent_that_says_what_cannot_be_is_lost_and_named(play: Play, madness: bytes, says: str) -> None:
    start = time.monotonic()
    end, writer = play(madness)
    assert end.status == "failed"
    assert end.reason
    assert end.reason.startswith("lost the agent of h1: ")
    assert says in end.reason
    assert time.monotonic() - start < 10
    assert StoredRun(writer.paths).first("ended")


@quick_and_thorough(1, 40)
def test_a_run_ends_whatever_an_agent_says(play: Play, cases: int) -> None:
    """Many messages, some of them as they should be: the run fails, but it ends and can be read."""
    good = [sent(message) for message in FROM_AGENTS]
    lies = [framed(data[4:]) if n % 2 else data for n, data in enumerate(mutants(good, 50 * cases, seed=3))]
    for first in range(0, len(lies), 50):
        end, writer = play(b"".join(lies[first : first + 50]))
        assert end.status == "failed"
        assert StoredRun(writer.paths).first("ended")
        assert StoredRun(writer.paths).steps is not None
