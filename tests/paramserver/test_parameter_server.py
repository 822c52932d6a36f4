"""The parameter server on its real socket: who may connect, and what invalid input does."""

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from paceline.paramserver.transports.curve_auth import CLIENT_PUBLIC, CLIENT_SECRET
from paceline.paramserver.wire import Op, Reply, Request
from paramserver.running_server import WORKER_KEYS, RunningServer, connect_zmq, run_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with run_server(tmp_path) as running:
        yield running


def test_worker_with_the_key_of_the_run_is_served(server: RunningServer) -> None:
    with connect_zmq(server.address, WORKER_KEYS) as worker:
        worker.send(Request(Op.PULL).header())
        reply, values = Reply.unpack([worker.recv()])
        assert reply == Reply(0, permit=True)
        first = np.frombuffer(values, np.float32)
        worker.send(Request(Op.PUSH, 0).header() + np.ones(7_850, np.float32).tobytes())
        reply, values = Reply.unpack([worker.recv()])
        assert (reply.update, reply.staleness) == (1, 0)
        assert np.allclose(np.frombuffer(values, np.float32), first - 0.5)
        worker.send(Request(Op.DONE).header())
    server.thread.join(10)
    assert server.outcome[0].updates == 1


@pytest.mark.parametrize("keys", ["none", "of another run"])
def test_client_without_the_key_of_the_run_gets_no_reply(server: RunningServer, keys: str) -> None:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    secrets = None if keys == "none" else {**WORKER_KEYS, CLIENT_PUBLIC: public, CLIENT_SECRET: secret}
    with connect_zmq(server.address, secrets) as intruder:
        intruder.rcvtimeo = 700
        intruder.send(Request(Op.PULL).header())
        with pytest.raises(zmq.Again):
            intruder.recv()
    test_worker_with_the_key_of_the_run_is_served(server)


def test_server_survives_invalid_input(server: RunningServer) -> None:
    host, port = server.address.removeprefix("tcp://").split(":")
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10_000, b""):
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(garbage)
    with connect_zmq(server.address, WORKER_KEYS) as worker:
        for message in (b"", b"garbage", Request(Op.PUSH).header() + b"abc", Request(Op.PUSH).header() + b"\0" * 4_000):
            worker.send(message)
        worker.send_multipart([b"many", b"frames"])
        worker.send(Request(Op.PULL).header())
        reply, _ = Reply.unpack([worker.recv()])
        assert reply == Reply(0, permit=True)


def test_message_larger_than_the_shard_is_rejected_unread(server: RunningServer) -> None:
    with connect_zmq(server.address, WORKER_KEYS) as sender:
        sender.rcvtimeo = 700
        sender.send(b"\0" * 10_000_000)
        with pytest.raises(zmq.Again):
            sender.recv()
    test_worker_with_the_key_of_the_run_is_served(server)
