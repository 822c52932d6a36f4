"""Requests and replies through pipes, between workers and a server on one host."""

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
from paceline.paramserver.transports.shared_memory import Segment, peer_path
from paceline.paramserver.wire import Buffer, Op, Reply, Request, WireError
from paramserver.running_server import VALUES, RunningServer, connect_pipe, run_server
from support.optimizers import sgd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="opens other processes' files through /proc")
REPLY = Reply(3, permit=True)
HEADER = REPLY.header()


@pytest.fixture
def transport() -> Iterator[PipeServerTransport]:
    transport = PipeServerTransport(workers=4, messages=1)
    yield transport
    transport.close()


@pytest.fixture
def connection(transport: PipeServerTransport) -> Iterator[PipeConnection]:
    connection = connect_pipe(transport.address)
    yield connection
    connection.close()


def send_request(transport: PipeServerTransport, connection: PipeConnection) -> None:
    """Send a request, and read it at the server's side."""
    connection.send(Request(Op.PULL))
    transport.next_sender()
    transport.read_request()


@pytest.fixture
def segments() -> list[Segment]:
    return [Segment(2 * VALUES), Segment(2 * VALUES)]


@pytest.fixture
def server(tmp_path: Path, segments: list[Segment]) -> Iterator[RunningServer]:
    peers = {f"w{number}": {"memory": segment.path} for number, segment in enumerate(segments)}
    with run_server(tmp_path, workers=2, transport="memory", optimizer=sgd(0.5, 0.9), peers=peers) as running:
        yield running


def test_worker_pushes_and_pulls_through_shared_memory(server: RunningServer, segments: list[Segment]) -> None:
    connection = connect_pipe(server.address)
    values, gradient = segments[0].vector.reshape(2, VALUES)
    assert connection.request(Request(Op.START), segments[0].path.encode()) == Reply(0, permit=True)
    connection.request(Request(Op.PULL))
    first = values.copy()
    gradient[:] = 1
    reply = connection.request(Request(Op.PUSH))
    assert (reply.update, reply.staleness) == (1, 0)
    assert np.allclose(values, first - 0.5)
    connection.send(Request(Op.STATE))
    _, state = connection.receive()
    assert np.array_equal(np.frombuffer(state, np.float32), np.concatenate([values, np.ones(VALUES)]))
    connection.close()


def test_invalid_requests_are_dropped(server: RunningServer) -> None:
    disconnect = threading.Event()
    connection, unknown_worker = connect_pipe(server.address), connect_pipe(server.address, 9, disconnect)
    for request, values in (
        (Request(Op.PUSH_ROWS), b""),
        (Request(Op.START), b"/etc/passwd"),
        (Request(Op.PULL, bucket=7), b""),
    ):
        connection.send(request, values)
    unknown_worker.send(Request(Op.PULL))
    assert connection.request(Request(Op.PULL)) == Reply(0, permit=True)
    disconnect.set()
    with pytest.raises(PeersGone, match="the controller disconnected this worker from ps0"):
        unknown_worker.receive()
    connection.close()
    unknown_worker.close()


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=104)), min_size=1, max_size=100))
def test_requests_of_several_workers_arrive_complete_and_in_order(sent: list[tuple[int, bytes]]) -> None:
    transport = PipeServerTransport(workers=4, messages=1)
    connections = [connect_pipe(transport.address, number) for number in range(4)]
    for number, content in sent:
        connections[number].send(Request(Op.PULL), content)
    received = []
    for _ in sent:
        worker = transport.next_sender()
        received.append((int(worker[1:]), bytes(Request.unpack(transport.read_request())[1])))
    assert received == sent
    for connection in connections:
        connection.close()
    transport.close()


@given(st.binary(min_size=128, max_size=128))
def test_any_frame_is_read_as_a_request_or_ignored_as_an_invalid_hello(frame: bytes) -> None:
    transport = PipeServerTransport(workers=4, messages=1)
    with open(transport.address, "wb", buffering=0) as requests:
        requests.write(frame)
    connection = connect_pipe(transport.address)
    connection.send(Request(Op.PULL))
    senders = [transport.next_sender()]
    if frame[2] != 1:  # It is not a hello.
        assert len(transport.read_request()[0]) <= 124
        senders.append(transport.next_sender())
    assert senders[-1] == b"w0"
    connection.close()
    transport.close()


@pytest.mark.parametrize("size", [105, 300])
def test_request_that_does_not_fit_into_a_frame_is_refused(connection: PipeConnection, size: int) -> None:
    with pytest.raises(WireError, match="too long for a pipe"):
        connection.send(Request(Op.START), bytes(size))


def test_values_larger_than_the_pipe_arrive_complete_and_delay_no_other_worker(
    transport: PipeServerTransport, connection: PipeConnection
) -> None:
    other = connect_pipe(transport.address, 1)
    send_request(transport, connection)
    values = np.arange(1_000_000, dtype=np.float32)
    transport.send_reply(b"w0", HEADER, values)
    received: list[tuple[Reply, Buffer]] = []
    reader = threading.Thread(target=lambda: received.append(connection.receive()))
    for number in range(100_000):
        send_request(transport, other)
        transport.send_reply(b"w1", HEADER, b"")
        assert other.receive()[0] == REPLY
        if number == 10:  # So far w0 has not read a byte.
            reader.start()
        if received:
            break
    reader.join()
    ((reply, payload),) = received
    assert reply == REPLY
    assert np.array_equal(np.frombuffer(payload, np.float32), values)
    other.close()


def test_rest_of_a_reply_is_sent_while_no_request_arrives(
    transport: PipeServerTransport, connection: PipeConnection
) -> None:
    send_request(transport, connection)
    transport.send_reply(b"w0", HEADER, bytes(1_000_000))
    next_request = threading.Thread(target=transport.next_sender)
    next_request.start()
    assert len(connection.receive()[1]) == 1_000_000
    connection.send(Request(Op.PULL))
    next_request.join()
    transport.read_request()


def test_only_the_worker_that_reads_no_replies_is_disconnected(
    transport: PipeServerTransport, connection: PipeConnection
) -> None:
    not_reading = connect_pipe(transport.address, 1)
    send_request(transport, not_reading)
    send_request(transport, connection)
    with pytest.raises(Unreachable, match="does not read its replies"):
        _send_many_replies(transport, b"w1")
    transport.send_reply(b"w0", HEADER, b"")
    assert connection.receive()[0] == REPLY
    assert not_reading.receive()[0] == REPLY  # The replies that fitted into the pipe are complete.
    not_reading.close()


def _send_many_replies(transport: PipeServerTransport, worker: bytes) -> None:
    for _ in range(10_000):
        transport.send_reply(worker, HEADER, b"")


def test_worker_that_is_gone_or_unknown_is_unreachable(transport: PipeServerTransport) -> None:
    connection = connect_pipe(transport.address)
    send_request(transport, connection)
    connection.close()
    with pytest.raises(Unreachable, match="Broken pipe"):
        transport.send_reply(b"w0", HEADER, b"")
    with pytest.raises(Unreachable, match="not a worker of this run"):
        transport.send_reply(b"w5", HEADER, b"")


def test_restarted_worker_gets_no_replies_of_its_previous_process(transport: PipeServerTransport) -> None:
    """Even if its first request arrives before the last request of the previous process is handled."""
    before, after = connect_pipe(transport.address), connect_pipe(transport.address)
    send_request(transport, before)
    before.send(Request(Op.PUSH))
    after.send(Request(Op.START))
    for op, reply in ((Op.PUSH, Reply(1, permit=True)), (Op.START, Reply(2, permit=True))):
        assert transport.next_sender() == b"w0"
        assert Request.unpack(transport.read_request())[0].op is op
        transport.send_reply(b"w0", reply.header(), b"")
    assert after.receive()[0] == Reply(2, permit=True)
    assert before.receive()[0] == Reply(1, permit=True)
    for connection in (before, after):
        connection.close()


@pytest.mark.parametrize("answered", [False, True])
def test_worker_notices_at_once_that_its_server_is_gone(answered: bool) -> None:
    transport = PipeServerTransport(workers=4, messages=1)
    connection = connect_pipe(transport.address)
    send_request(transport, connection)
    if answered:
        transport.send_reply(b"w0", HEADER, b"")
    transport.close()
    if answered:
        assert connection.receive()[0] == REPLY
    with pytest.raises(PeersGone, match="ps0 is gone while a reply was due"):
        connection.receive()
    with pytest.raises(PeersGone, match="ps0 is gone"):
        connection.send(Request(Op.PULL))
    connection.close()


@pytest.mark.parametrize("target", ["nothing", "a file", "no path"])
def test_connecting_without_a_server_fails_and_leaves_no_file_open(tmp_path: Path, target: str) -> None:
    with (tmp_path / "file").open("wb") as file:
        path = {"nothing": peer_path(987), "a file": peer_path(file.fileno()), "no path": "tcp://1.2.3.4:5"}[target]
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(PeersGone, match="cannot connect to ps0: "):
            connect_pipe(path)
        assert len(os.listdir("/proc/self/fd")) == before
    assert (tmp_path / "file").read_bytes() == b""


def test_closing_a_connection_twice_closes_no_other_file(transport: PipeServerTransport) -> None:
    before = len(os.listdir("/proc/self/fd"))
    connection = connect_pipe(transport.address)
    connection.close()
    with Path("/dev/null").open() as other:
        connection.abandon()
        assert os.fstat(other.fileno())
    assert len(os.listdir("/proc/self/fd")) == before


def test_unreferenced_segment_is_freed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    segment = Segment(10)
    assert len(os.listdir("/proc/self/fd")) > before
    del segment
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", ["memory", "pipe"])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to switch to another user")
def test_other_users_cannot_open_memory_and_pipes(transport: PipeServerTransport, kind: str) -> None:
    segment = Segment(10)
    path, mode = (segment.path, "r+b") if kind == "memory" else (transport.address, "wb")
    code = f"open({path!r}, {mode!r}, buffering=0)"
    assert subprocess.run(["python3", "-c", code], check=False, capture_output=True).returncode == 0
    other = subprocess.run(["python3", "-c", code], check=False, capture_output=True, user=65534, group=65534)
    assert b"PermissionError" in other.stderr
