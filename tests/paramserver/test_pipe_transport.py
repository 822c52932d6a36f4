"""Requests and answers through pipes, between a worker and a server of one machine."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PeersGone
from paceline.paramserver.transports.pipe_transport import PipeConnection, PipeServerTransport
from paceline.paramserver.transports.server_transport import Unreachable
from paceline.paramserver.transports.shared_memory import Segment, path_of
from paceline.paramserver.wire import Buffer, Op, Reply, Request, WireError
from paramserver.serving import VALUES, Running, neighbour, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="opens other processes' files through /proc")
ANSWER = Reply(3, more=True)
HEAD = ANSWER.head()


@pytest.fixture
def desk() -> Iterator[PipeServerTransport]:
    made = PipeServerTransport(workers=4, messages=1)
    yield made
    made.close()


@pytest.fixture
def link(desk: PipeServerTransport) -> Iterator[PipeConnection]:
    made = neighbour(desk.address)
    yield made
    made.close()


def ask(desk: PipeServerTransport, link: PipeConnection) -> None:
    """A request, taken by the desk."""
    link.send(Request(Op.PULL))
    desk.next_sender()
    desk.message()


@pytest.fixture
def segments() -> list[Segment]:
    return [Segment(2 * VALUES), Segment(2 * VALUES)]


@pytest.fixture
def server(tmp_path: Path, segments: list[Segment]) -> Iterator[Running]:
    peers = {f"w{number}": {"memory": segment.path} for number, segment in enumerate(segments)}
    with running(tmp_path, workers=2, transport="memory", momentum=0.9, peers=peers) as made:
        yield made


def test_a_neighbour_pushes_and_pulls_through_memory(server: Running, segments: list[Segment]) -> None:
    link, values, gradient = neighbour(server.address), segments[0].vector[:VALUES], segments[0].vector[VALUES:]
    assert link.ask(Request(Op.START), segments[0].path.encode()) == Reply(0, more=True)
    link.ask(Request(Op.PULL))
    first = values.copy()
    gradient[:] = 1
    reply = link.ask(Request(Op.PUSH))
    assert (reply.update, reply.staleness) == (1, 0)
    assert np.allclose(values, first - 0.5)
    link.send(Request(Op.STATE))
    _, state = link.receive()
    assert np.array_equal(np.frombuffer(state, np.float32), np.concatenate([values, np.ones(VALUES)]))
    link.close()


def test_what_cannot_be_a_request_is_dropped(server: Running) -> None:
    recalled = threading.Event()
    link, nobody = neighbour(server.address), neighbour(server.address, 9, recalled)
    for request, values in (
        (Request(Op.PUSH_ROWS), b""),
        (Request(Op.START), b"/etc/passwd"),
        (Request(Op.PULL, bucket=7), b""),
    ):
        link.send(request, values)
    nobody.send(Request(Op.PULL))
    assert link.ask(Request(Op.PULL)) == Reply(0, more=True)
    recalled.set()
    with pytest.raises(PeersGone, match="recalled from ps0"):
        nobody.receive()
    for one in (link, nobody):
        one.close()


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=104)), min_size=1, max_size=100))
def test_requests_of_several_workers_arrive_whole_and_in_order(sent: list[tuple[int, bytes]]) -> None:
    desk = PipeServerTransport(workers=4, messages=1)
    links = [neighbour(desk.address, number) for number in range(4)]
    for number, content in sent:
        links[number].send(Request(Op.PULL), content)
    found = []
    for _ in sent:
        worker = desk.next_sender()
        found.append((int(worker[1:]), bytes(Request.unpack(desk.message())[1])))
    assert found == sent
    for link in links:
        link.close()
    desk.close()


@given(st.binary(min_size=128, max_size=128))
def test_any_slip_at_all_is_a_message_of_somebody_or_a_hello_of_nobody(slip: bytes) -> None:
    desk = PipeServerTransport(workers=4, messages=1)
    with open(desk.address, "wb", buffering=0) as anyone:
        anyone.write(slip)
    link = neighbour(desk.address)
    link.send(Request(Op.PULL))
    found = [desk.next_sender()]
    if slip[2] != 1:  # A message of somebody.
        assert len(desk.message()[0]) <= 124
        found.append(desk.next_sender())
    assert found[-1] == b"w0"
    link.close()
    desk.close()


@pytest.mark.parametrize("size", [105, 300])
def test_a_request_that_does_not_fit_is_refused(link: PipeConnection, size: int) -> None:
    with pytest.raises(WireError, match="does not go through a pipe"):
        link.send(Request(Op.START), bytes(size))


def test_values_larger_than_a_pipe_holds_arrive_whole_and_hold_nobody_up(
    desk: PipeServerTransport, link: PipeConnection
) -> None:
    other = neighbour(desk.address, 1)
    ask(desk, link)
    values = np.arange(1_000_000, dtype=np.float32)
    desk.answer(b"w0", HEAD, values)
    found: list[tuple[Reply, Buffer]] = []
    reader = threading.Thread(target=lambda: found.append(link.receive()))
    for turn in range(100_000):
        ask(desk, other)
        desk.answer(b"w1", HEAD, b"")
        assert other.receive()[0] == ANSWER
        if turn == 10:  # So far w0 has not read a byte.
            reader.start()
        if found:
            break
    reader.join()
    ((reply, taken),) = found
    assert reply == ANSWER
    assert np.array_equal(np.frombuffer(taken, np.float32), values)
    other.close()


def test_what_is_left_to_send_is_sent_while_nobody_asks(desk: PipeServerTransport, link: PipeConnection) -> None:
    ask(desk, link)
    desk.answer(b"w0", HEAD, bytes(1_000_000))
    next_one = threading.Thread(target=desk.next_sender)
    next_one.start()
    assert len(link.receive()[1]) == 1_000_000
    link.send(Request(Op.PULL))
    next_one.join()
    desk.message()


def test_who_takes_no_answers_is_given_up_and_nobody_else(desk: PipeServerTransport, link: PipeConnection) -> None:
    deaf = neighbour(desk.address, 1)
    ask(desk, deaf)
    ask(desk, link)
    with pytest.raises(Unreachable, match="takes no answers"):
        _answer_on_and_on(desk, b"w1")
    desk.answer(b"w0", HEAD, b"")
    assert link.receive()[0] == ANSWER
    assert deaf.receive()[0] == ANSWER  # What fitted is whole.
    deaf.close()


def _answer_on_and_on(desk: PipeServerTransport, worker: bytes) -> None:
    for _ in range(10_000):
        desk.answer(worker, HEAD, b"")


def test_a_worker_that_is_gone_or_was_never_there_is_unreachable(desk: PipeServerTransport) -> None:
    link = neighbour(desk.address)
    ask(desk, link)
    link.close()
    with pytest.raises(Unreachable, match="Broken pipe"):
        desk.answer(b"w0", HEAD, b"")
    with pytest.raises(Unreachable, match="none of ours"):
        desk.answer(b"w5", HEAD, b"")


def test_whoever_comes_back_gets_none_of_its_predecessors_answers(desk: PipeServerTransport) -> None:
    """Even if its first request came before the last of the old one was looked at."""
    before, after = neighbour(desk.address), neighbour(desk.address)
    ask(desk, before)
    before.send(Request(Op.PUSH))
    after.send(Request(Op.START))
    for op, reply in ((Op.PUSH, Reply(1, more=True)), (Op.START, Reply(2, more=True))):
        assert desk.next_sender() == b"w0"
        assert Request.unpack(desk.message())[0].op is op
        desk.answer(b"w0", reply.head(), b"")
    assert after.receive()[0] == Reply(2, more=True)
    assert before.receive()[0] == Reply(1, more=True)
    for link in (before, after):
        link.close()


@pytest.mark.parametrize("answered", [False, True])
def test_a_server_that_goes_is_missed_at_once(answered: bool) -> None:
    desk = PipeServerTransport(workers=4, messages=1)
    link = neighbour(desk.address)
    ask(desk, link)
    if answered:
        desk.answer(b"w0", HEAD, b"")
    desk.close()
    if answered:
        assert link.receive()[0] == ANSWER
    with pytest.raises(PeersGone, match="ps0 is gone, and owed an answer"):
        link.receive()
    with pytest.raises(PeersGone, match="ps0 is gone"):
        link.send(Request(Op.PULL))
    link.close()


@pytest.mark.parametrize("what", ["nothing", "a file", "no path"])
def test_where_there_is_no_server_is_said_and_nothing_stays_open(tmp_path: Path, what: str) -> None:
    with (tmp_path / "file").open("wb") as file:
        path = {"nothing": path_of(987), "a file": path_of(file.fileno()), "no path": "tcp://1.2.3.4:5"}[what]
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(PeersGone, match="ps0 is not there: "):
            neighbour(path)
        assert len(os.listdir("/proc/self/fd")) == before
    assert (tmp_path / "file").read_bytes() == b""


def test_a_link_that_is_closed_twice_closes_nothing_else(desk: PipeServerTransport) -> None:
    before = len(os.listdir("/proc/self/fd"))
    link = neighbour(desk.address)
    link.close()
    with Path("/dev/null").open() as other:
        link.abandon()
        assert os.fstat(other.fileno())
    assert len(os.listdir("/proc/self/fd")) == before


def test_memory_that_nobody_holds_any_more_is_let_go() -> None:
    before = len(os.listdir("/proc/self/fd"))
    segment = Segment(10)
    assert len(os.listdir("/proc/self/fd")) > before
    del segment
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("what", ["memory", "pipe"])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_memory_and_pipes_are_closed_to_other_users(desk: PipeServerTransport, what: str) -> None:
    segment = Segment(10)
    path, mode = (segment.path, "r+b") if what == "memory" else (desk.address, "wb")
    look = f"open({path!r}, {mode!r}, buffering=0)"
    assert subprocess.run(["python3", "-c", look], check=False, capture_output=True).returncode == 0
    other = subprocess.run(["python3", "-c", look], check=False, capture_output=True, user=65534, group=65534)
    assert b"PermissionError" in other.stderr
