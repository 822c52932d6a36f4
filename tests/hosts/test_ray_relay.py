"""The relay between the controller's pipes and the actor of a node, with the actor in this process instead of Ray."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from paceline.hosts.child_agent import agent_arguments
from paceline.hosts.ray.node_agent import NodeAgent
from paceline.hosts.ray.relay import RelayedAgent
from paceline.messages import FromAgent, Hello, Ping, Pong, Receiver, Sender, Setup
from paceline.messages.framing import skip_to_start_marker


class ActorHere:
    """Calls a NodeAgent as Ray does: with a thread for each direction."""

    def __init__(self) -> None:
        self.agent = NodeAgent()
        self.ended = threading.Event()
        self.silent = False
        self._threads = ThreadPoolExecutor(2)

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        if self.silent:
            return Future()
        return self._threads.submit(getattr(self.agent, method), *arguments)

    def end(self) -> None:
        self.ended.set()
        if self.agent._agent:
            self.agent._agent.kill()

    @property
    def process(self) -> psutil.Process:
        assert self.agent._agent
        return psutil.Process(self.agent._agent.pid)


@pytest.fixture
def actor() -> Iterator[ActorHere]:
    made = ActorHere()
    yield made
    made.end()


def relay(actor: ActorHere, log: Path, **options: float) -> RelayedAgent:
    return RelayedAgent(actor, agent_arguments("h1", network="host"), log, **options)


def hello(agent: RelayedAgent) -> tuple[Sender, Receiver[FromAgent]]:
    """Sends Setup and returns when the agent has answered."""
    sender, receiver = Sender(agent.stdin), Receiver[FromAgent](agent.stdout, FromAgent)
    skip_to_start_marker(agent.stdout)
    sender.send(Setup("", sample_hz=0))
    assert isinstance(receiver.receive(), Hello)
    return sender, receiver


def test_messages_pass_in_both_directions_and_closing_stdin_ends_the_agent(actor: ActorHere, tmp_path: Path) -> None:
    agent = relay(actor, tmp_path / "log")
    sender, receiver = hello(agent)
    process = actor.process
    for number in range(100):
        sender.send(Ping(number))
    answers = [receiver.receive() for _ in range(100)]
    assert [answer.sequence for answer in answers if isinstance(answer, Pong)] == list(range(100))
    agent.stdin.close()
    assert receiver.receive() is None
    assert agent.wait(20)
    assert actor.ended.is_set()
    assert not process.is_running()
    agent.stdout.close()


def test_killed_agent_closes_the_pipes(actor: ActorHere, tmp_path: Path) -> None:
    agent = relay(actor, tmp_path / "log")
    sender, receiver = hello(agent)
    actor.process.kill()
    assert receiver.receive() is None
    assert agent.wait(20)
    with pytest.raises(BrokenPipeError):
        sender.send(Ping(1))


def test_agent_says_in_the_log_why_it_did_not_start(actor: ActorHere, tmp_path: Path) -> None:
    log = tmp_path / "log"
    agent = RelayedAgent(actor, ["--unknown"], log)
    assert agent.stdout.read() == b""
    assert agent.wait(20)
    assert "required: --host" in log.read_text()


def test_kill_works_while_the_node_does_not_answer(actor: ActorHere, tmp_path: Path) -> None:
    agent = relay(actor, tmp_path / "log")
    sender, receiver = hello(agent)
    actor.silent = True
    sender.send(Ping(1))
    agent.kill()
    agent.kill()
    assert agent.wait(20)
    assert actor.ended.is_set()
    while receiver.receive() is not None:
        pass


def test_node_that_starts_no_agent_in_time_is_reported(actor: ActorHere, tmp_path: Path) -> None:
    actor.silent = True
    log = tmp_path / "log"
    agent = relay(actor, log, start_s=0.1)
    assert agent.stdout.read() == b""
    assert agent.wait(20)
    assert log.read_text() == "the node did not start an agent within 0 s\n"
    assert actor.ended.is_set()


def test_error_of_the_actor_is_one_line_of_the_log(
    actor: ActorHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_arguments: object) -> None:
        raise OSError("no\nmemory")

    monkeypatch.setattr(actor.agent, "start", start)
    log = tmp_path / "log"
    agent = relay(actor, log)
    assert agent.stdout.read() == b""
    assert log.read_text() == "no memory\n"
