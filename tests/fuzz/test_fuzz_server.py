"""The parameter server under arbitrary input: clients without the key get no reply, a faulty worker harms no other."""

import logging
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
import zmq

from fuzz.mutations import mutants, quick_and_thorough
from paceline.paramserver.transports.curve_auth import CLIENT_PUBLIC, CLIENT_SECRET
from paceline.paramserver.transports.shared_memory import Segment, is_peer_path, peer_path
from paceline.paramserver.wire import Op, Request
from paramserver.running_server import (
    VALUES,
    WORKER_KEYS,
    RunningServer,
    connect_pipe,
    connect_zmq,
    drain_replies,
    pull_and_push,
    run_server,
)

MB = 10**6
PUSH = Request(Op.PUSH).header() + bytes(4 * VALUES)
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01"
UNAUTHENTICATED = [
    GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x04\xc8\x05HELLO\x01" + bytes(193),
    GREETING + b"NULL".ljust(20, b"\0") + bytes(32) + b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER",
    GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x06\xff\xff\xff\xff\xff\xff\xff\xff",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of two workers; w0 behaves correctly in every test."""
    with run_server(tmp_path, workers=2) as running:
        yield running


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def keys_of_another_run() -> dict[str, str]:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    return {**WORKER_KEYS, CLIENT_PUBLIC: public, CLIENT_SECRET: secret}


@quick_and_thorough(3_000)
def test_worker_that_sends_arbitrary_messages_harms_no_other(
    server: RunningServer, cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    rng = random.Random(4)
    valid = [*(Request(op).header() for op in Op if op is not Op.DONE), PUSH[:400], PUSH]
    names = ["w1", "w9", "", "w0" * 100]
    with ExitStack() as stack:
        worker = stack.enter_context(connect_zmq(server.address, WORKER_KEYS))
        faulty = [stack.enter_context(connect_zmq(server.address, WORKER_KEYS, name)) for name in names]
        pull_and_push(worker)
        before = resident_bytes()
        for number, data in enumerate(mutants(valid, cases)):
            cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 5))))
            parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
            rng.choice(faulty).send_multipart(parts)  # It never reads a reply.
            if number % 500 == 0:
                pull_and_push(worker)
        pull_and_push(worker)
        assert resident_bytes() - before < 60 * MB
        for sender in faulty:
            drain_replies(sender)
    assert len(caplog.records) < 40  # One line per message would fill the disk.


def test_worker_that_reads_no_replies_delays_no_other(server: RunningServer) -> None:
    """Regression test: the server waited for this worker, and replied to no other."""
    with (
        connect_zmq(server.address, WORKER_KEYS) as worker,
        connect_zmq(server.address, WORKER_KEYS, "w1") as not_reading,
    ):
        not_reading.rcvhwm = 1
        pull_and_push(worker)
        before = resident_bytes()
        for _ in range(20):
            for _ in range(500):
                not_reading.send(Request(Op.PULL).header())
            pull_and_push(worker)
        assert resident_bytes() - before < 200 * MB  # 10,000 replies have 314 MB.
        drain_replies(not_reading)


def test_client_with_the_key_may_take_over_the_name_of_a_worker(server: RunningServer) -> None:
    """Names are not secret: a restarted worker takes over its old name. Only the key protects the server."""
    with connect_zmq(server.address, WORKER_KEYS) as first:
        pull_and_push(first)
        with connect_zmq(server.address, WORKER_KEYS) as second:
            pull_and_push(second)
    with connect_zmq(server.address, WORKER_KEYS, "w1") as other:
        pull_and_push(other)


@pytest.mark.parametrize("keys", ["none", "of another run", "wrong server key"])
def test_clients_without_the_key_get_no_reply_and_use_no_memory(server: RunningServer, keys: str) -> None:
    secrets = {
        "none": None,
        "of another run": keys_of_another_run(),
        "wrong server key": {**keys_of_another_run(), "curve-server-public": keys_of_another_run()[CLIENT_PUBLIC]},
    }[keys]
    with ExitStack() as stack:
        worker = stack.enter_context(connect_zmq(server.address, WORKER_KEYS))
        update = pull_and_push(worker).update
        clients = [stack.enter_context(connect_zmq(server.address, secrets, f"w{n % 2}")) for n in range(8)]
        before = resident_bytes()
        for client in clients:
            client.linger, client.sndtimeo = 0, 0
            for _ in range(100):
                with suppress(zmq.Again):  # The queue of a client that is not accepted is full.
                    client.send(PUSH)
        for more in range(1, 200):
            assert pull_and_push(worker).update == update + more
        assert not any(client.poll(0) for client in clients)
        assert resident_bytes() - before < 60 * MB  # 25 MB of it are in the clients' queues.


@quick_and_thorough(300, 5_000)
def test_server_survives_arbitrary_bytes_of_unauthenticated_clients(server: RunningServer, cases: int) -> None:
    host, port = server.address.removeprefix("tcp://").split(":")
    before = resident_bytes()
    with connect_zmq(server.address, WORKER_KEYS) as worker:
        for number, data in enumerate(mutants(UNAUTHENTICATED, cases)):
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as raw:
                raw.sendall(data)
            if number % 100 == 0:
                pull_and_push(worker)
        pull_and_push(worker)
    assert resident_bytes() - before < 60 * MB


@pytest.mark.parametrize("wait_for_close", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_idle_connections_disturb_no_worker_and_are_closed(server: RunningServer, wait_for_close: bool) -> None:
    host, port = server.address.removeprefix("tcp://").split(":")
    with ExitStack() as stack:
        worker = stack.enter_context(connect_zmq(server.address, WORKER_KEYS))
        pull_and_push(worker)
        before = resident_bytes()
        idle = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(300)]
        for _ in range(50):
            pull_and_push(worker)
        assert resident_bytes() - before < 60 * MB
        for connection in idle if wait_for_close else ():
            connection.settimeout(20)
            while connection.recv(1024):  # ZeroMQ's greeting, then the end of the stream.
                pass
        pull_and_push(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="opens other processes' files through /proc")
@quick_and_thorough(3_000)
def test_process_that_writes_arbitrary_bytes_into_the_pipe_harms_no_worker(
    tmp_path: Path, cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    segments = [Segment(2 * VALUES), Segment(2 * VALUES)]
    peers = {f"w{number}": {"memory": segment.path} for number, segment in enumerate(segments)}
    file = (tmp_path / "file").open("wb")
    paths = [b"/proc/1/fd/99999999999", b"/etc/passwd", b"\xff" * 90]
    paths += [segments[1].path.encode(), peer_path(file.fileno()).encode()]
    contents = [*(Request(op).header() for op in Op), *(Request(Op.START).header() + path for path in paths), *paths]
    valid = [struct.pack("<HBB", 1, kind, len(content)) + content for content in contents for kind in (0, 1)]
    with run_server(tmp_path, workers=2, transport="memory", peers=peers) as server:
        worker = connect_pipe(server.address)
        worker.request(Request(Op.START), segments[0].path.encode())
        before, updates = resident_bytes(), 0
        with open(server.address, "wb", buffering=0) as requests:
            for number, data in enumerate(mutants(valid, cases)):
                frame = data[:128].ljust(128, b"\0")
                # Skip frames in the name of the correct worker, and hellos with the path of another open file.
                content = frame[4 : 4 + frame[3]]
                is_other_file = content not in paths and is_peer_path(content.decode("ascii", "replace"))
                if frame[:2] != b"\0\0" and not is_other_file:
                    requests.write(frame)
                if number % 500 == 0:
                    reply = worker.request(Request(Op.PUSH))
                    assert reply.update > updates
                    updates = reply.update
        worker.request(Request(Op.PULL))
        file.close()
        assert (tmp_path / "file").read_bytes() == b""
        assert resident_bytes() - before < 60 * MB
        worker.close()
    assert len(caplog.records) < 40


def test_message_larger_than_any_bucket_is_rejected(server: RunningServer) -> None:
    with connect_zmq(server.address, WORKER_KEYS) as worker, connect_zmq(server.address, WORKER_KEYS, "w1") as sender:
        pull_and_push(worker)
        sender.send(bytes(4 * VALUES + 4_096))
        assert not sender.poll(500)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and pull_and_push(worker).update < 50:
            pass
        assert pull_and_push(worker).update >= 50
