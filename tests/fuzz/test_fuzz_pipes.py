"""Controller, agents and tasks under arbitrary bytes on the pipes between them."""

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

from fuzz.mutations import mutants, quick_and_thorough
from paceline import messages as p
from paceline.agent.tasks import RunningTask
from paceline.available import catalog
from paceline.control.events import End
from paceline.control.execute import execute
from paceline.control.interrupts import Interrupts
from paceline.control.validate_message import invalid_reason
from paceline.data.dataset import PreparedData
from paceline.hosts.base import AgentPipes, Condition, Host, HostRequest
from paceline.messages import FrameError, FromAgent, FromTask, Receiver, Sender, ToAgent, ToTask
from paceline.messages.framing import skip_to_start_marker
from paceline.messages.link_probe import LinkMeasurement, LinkOrder, LinksMeasured, MeasureLinks
from paceline.pipeline import header_of
from paceline.plan.place import RunPlan, place
from paceline.recording.layout import RECORD_BYTES
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.store.header import ResumePoint
from paceline.store.run import StoredRun
from paceline.store.writer import RunWriter
from paceline.train.context import Outcome
from support.fake_hosts import FakeAgent, FakeHosts, serve_until_halted
from support.live_run import wait_for_exit

SAMPLE = p.HostSample(
    1, 0.5, [1.0, 2.0], 10, p.LinkCount(1, 2, 3, 4), p.LinkCount(), 5, 6, [p.TaskSample("w0", 0.1, 9, 3, 0.2)]
)
RAW = msgspec.Raw(msgspec.msgpack.encode(Outcome(steps=10, updates=10)))
FROM_TASKS: list[p.Message] = [
    p.Bound({"a": "b"}), p.Ready(), p.Finished(RAW), p.Failed("it failed", "Traceback"),
    p.Attached("checkpoint", "x", b"data", True), LinksMeasured((LinkMeasurement(receiver="h2", mb_s=1.0),)),
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
    "agent to task": (
        ToTask,
        [p.Peers({"w0": {"a": "b"}}), p.Go(), p.Halt(), p.MayExit(), MeasureLinks(("h2",), "rtt")],
    ),
}


def encode(*messages: p.Message) -> bytes:
    stream = io.BytesIO()
    for message in messages:
        Sender(stream).send(message)
    return stream.getvalue()


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + body


def nested_lists(levels: int) -> bytes:
    """A Finished message whose outcome is so many nested lists."""
    return frame(b"\x92" + msgspec.msgpack.encode("Finished") + b"\x91" * levels + b"\xc0")


@pytest.mark.parametrize("pipe", PIPES)
@quick_and_thorough()
def test_any_bytes_are_messages_or_the_end_or_a_frame_error(pipe: str, cases: int) -> None:
    kind, messages = PIPES[pipe]
    good = [encode(message) for message in messages]
    refused = 0
    # Every other case has a correct length, so that the content of the frame is parsed.
    for number, data in enumerate(mutants(good, cases)):
        receiver = Receiver[Any](io.BytesIO(frame(data[4:]) if number % 2 else data), kind)
        try:
            while receiver.receive() is not None:
                pass
        except FrameError:
            refused += 1
    assert refused > cases / 4


@pytest.mark.parametrize("levels", [1_000, 100_000, 10_000_000])
def test_deeply_nested_lists_are_a_frame_error(levels: int) -> None:
    """Regression test: they raised RecursionError, which silently ended the receiving thread."""
    with pytest.raises(FrameError):
        Receiver[FromTask](io.BytesIO(nested_lists(levels)), FromTask).receive()


def test_memory_is_allocated_for_received_bytes_not_for_the_announced_size() -> None:
    with open(os.devnull, "rb") as nothing:
        stream = _BufferedPipe([(p.MAX_FRAME_BYTES - 1).to_bytes(4, "little"), b"x" * 100], nothing)
        tracemalloc.start()
        try:
            assert Receiver[FromAgent](stream, FromAgent).receive() is None  # type: ignore[arg-type]
            assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
        finally:
            tracemalloc.stop()


class _BufferedPipe:
    """A pipe that allocates as many bytes as are requested, as buffered pipes do."""

    def __init__(self, parts: list[bytes], end: io.BufferedReader) -> None:
        self._parts, self._end = parts, end

    def read(self, size: int) -> bytes:
        bytearray(size)
        return self._parts.pop(0)[:size] if self._parts else self._end.read(size)


# ---- a real agent ----

GARBAGE = [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, frame(b"\x93\xa4Ping\x01" + b"\x91" * 5_000), frame(b"\xc1")]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_agent_that_receives_garbage_ends_with_its_tasks_and_logs_the_error(tmp_path: Path, garbage: bytes) -> None:
    command = [sys.executable, "-m", "paceline.agent", "--host", "h1", "--network", "machine"]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    assert agent.stdin
    assert agent.stdout
    try:
        # A task that waits for messages that never come.
        link = LinkOrder(host="h1", address="127.0.0.1", token="x")
        order = p.StartTask("link-h1", msgspec.Raw(msgspec.msgpack.encode(link)), {}, "link")
        agent.stdin.write(encode(p.Setup(str(tmp_path / "spool"), 0.0), order))
        agent.stdin.flush()
        skip_to_start_marker(agent.stdout)  # type: ignore[arg-type]
        receiver = Receiver[FromAgent](agent.stdout, FromAgent)  # type: ignore[arg-type]
        started = next(message for message in iter(receiver.receive, None) if isinstance(message, p.TaskStarted))
        processes = [psutil.Process(started.pid)] if psutil.pid_exists(started.pid) else []
        agent.stdin.write(garbage)
        agent.stdin.flush()
        assert agent.wait(10) == 1
        wait_for_exit(processes, 5)
        assert "FrameError" in log.read_text()
    finally:
        agent.kill()
        agent.stdin.close()
        agent.stdout.close()


# ---- an agent with a task that writes invalid messages ----


@pytest.mark.parametrize("garbage", [b"Hello, world\n", nested_lists(5_000), b"\xff\xff\xff\xff"])
def test_task_that_writes_invalid_messages_is_ended_and_named(
    tmp_path: Path, garbage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import sys, time; sys.stdout.buffer.write({garbage!r}); sys.stdout.flush(); time.sleep(60)"
    monkeypatch.setattr("paceline.agent.tasks._training_command", lambda *_: [sys.executable, "-c", code])
    stream = io.BytesIO()
    order = p.StartTask("w0", RAW, {})
    task = RunningTask(order, tmp_path, [], os.environ, Sender(stream), lambda _name: None)
    task.join(timeout_s=30)
    assert not task.alive
    stream.seek(0)
    failed, exited = iter(Receiver[FromAgent](stream, FromAgent).receive, None)
    assert isinstance(failed, p.TaskMessage)
    assert isinstance(failed.message, p.Failed)
    assert "not a valid message" in failed.message.user_line
    assert isinstance(exited, p.TaskExited)


# ---- the controller with an agent that sends invalid messages ----


class FaultyHosts(FakeHosts):
    """Scripted hosts; the agent of the first one writes `output` once its tasks train, then ends."""

    def __init__(self, output: bytes) -> None:
        super().__init__({"ps0": serve_until_halted, "w1": serve_until_halted})
        self._output = output

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        with super().open(token, requests) as hosts:
            yield [FaultyHost(host, self._output) if host.name == "h1" else host for host in hosts]


class FaultyHost:
    def __init__(self, host: Host, output: bytes) -> None:
        self.name, self.address, self.ports = host.name, host.address, host.ports
        self._host, self._output = host, output

    def apply_condition(self, condition: Condition) -> None:
        self._host.apply_condition(condition)

    def start_agent(self, log: Path) -> AgentPipes:
        agent = self._host.start_agent(log)
        assert isinstance(agent, FakeAgent)
        handle_normally = agent._handle

        def handle(message: ToAgent) -> None:
            handle_normally(message)
            if isinstance(message, p.SendToTask) and isinstance(message.message, p.Go) and message.task == "w0":
                agent._output.write(self._output)
                agent._output.flush()
                raise BrokenPipeError  # It ends, so that the controller does not wait for the rest of a frame.

        agent._handle = handle  # type: ignore[method-assign]
        agent._scripts = {"w0": serve_until_halted, "ps0": serve_until_halted}
        return agent


@pytest.fixture
def plan() -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", "strategy": "ps-sync", "layout": "pw w"}))
    return place(spec, catalog())


RunWith = Callable[[bytes], tuple[End, RunWriter]]


@pytest.fixture
def run_with(plan: RunPlan, tmp_path: Path) -> RunWith:
    def run(output: bytes) -> tuple[End, RunWriter]:
        writer = RunWriter(tmp_path / "runs", "test", plan)
        ready = PreparedData(paths=(), source="none", synthetic=True)
        writer.write_header(header_of(plan, ready, ResumePoint(), clock_zero_ns=writer.clock_zero_ns))
        end = execute(plan, FaultyHosts(output), ready, writer, lambda _moment: None, Interrupts())
        writer.close()
        writer.release()
        return end, writer

    return run


TASK_HOSTS = {"ps0": "h1", "w0": "h1", "w1": "h2"}


@pytest.mark.parametrize(
    ("message", "reason"),
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
def test_impossible_messages_of_an_agent_are_invalid(message: FromAgent, reason: str) -> None:
    assert reason in str(invalid_reason("h1", message, TASK_HOSTS))


def test_real_messages_of_an_agent_are_valid() -> None:
    task_hosts = dict.fromkeys(("w0", "w1"), "h1")
    assert [invalid_reason("h1", message, task_hosts) for message in FROM_AGENTS] == [None] * len(FROM_AGENTS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "reason"),
    [(b"\xff" * 100, "announces"), (encode(p.Log("../../../tmp/x", b"text")), "which does not run there")],
)
def test_agent_that_sends_invalid_messages_is_lost_and_named(run_with: RunWith, output: bytes, reason: str) -> None:
    start = time.monotonic()
    end, writer = run_with(output)
    assert end.status == "failed"
    assert end.reason
    assert end.reason.startswith("lost the agent of h1: ")
    assert reason in end.reason
    assert time.monotonic() - start < 10
    assert StoredRun(writer.paths).first("ended")


@quick_and_thorough(1, 40)
def test_run_ends_whatever_an_agent_sends(run_with: RunWith, cases: int) -> None:
    """The agent sends many messages, some of them valid: the run fails, but it ends and can be read."""
    good = [encode(message) for message in FROM_AGENTS]
    outputs = [frame(data[4:]) if n % 2 else data for n, data in enumerate(mutants(good, 50 * cases, seed=3))]
    for first in range(0, len(outputs), 50):
        end, writer = run_with(b"".join(outputs[first : first + 50]))
        assert end.status == "failed"
        assert StoredRun(writer.paths).first("ended")
        assert StoredRun(writer.paths).steps is not None
