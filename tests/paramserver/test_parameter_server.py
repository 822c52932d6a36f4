"""The parameter server behind its real socket: who is let in, and what garbage does."""

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from paceline.paramserver.transports.curve_auth import CLIENT_PUBLIC, CLIENT_SECRET
from paceline.paramserver.wire import Op, Reply, Request
from paramserver.serving import WORKER_KEYS, Running, client, running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as made:
        yield made


def test_a_worker_with_the_runs_key_is_served(server: Running) -> None:
    with client(server.address, WORKER_KEYS) as worker:
        worker.send(Request(Op.PULL).head())
        reply, values = Reply.unpack([worker.recv()])
        assert reply == Reply(0, more=True)
        first = np.frombuffer(values, np.float32)
        worker.send(Request(Op.PUSH, 0).head() + np.ones(7_850, np.float32).tobytes())
        reply, values = Reply.unpack([worker.recv()])
        assert (reply.update, reply.staleness) == (1, 0)
        assert np.allclose(np.frombuffer(values, np.float32), first - 0.5)
        worker.send(Request(Op.LEAVE).head())
    server.thread.join(10)
    assert server.outcome[0].updates == 1


@pytest.mark.parametrize("keys", ["none", "others"])
def test_a_client_without_the_runs_key_gets_nothing(server: Running, keys: str) -> None:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    secrets = None if keys == "none" else {**WORKER_KEYS, CLIENT_PUBLIC: public, CLIENT_SECRET: secret}
    with client(server.address, secrets) as intruder:
        intruder.rcvtimeo = 700
        intruder.send(Request(Op.PULL).head())
        with pytest.raises(zmq.Again):
            intruder.recv()
    test_a_worker_with_the_runs_key_is_served(server)


def test_garbage_is_survived(server: Running) -> None:
    host, port = server.address.removeprefix("tcp://").split(":")
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10_000, b""):
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(garbage)
    with client(server.address, WORKER_KEYS) as worker:
        for message in (b"", b"garbage", Request(Op.PUSH).head() + b"abc", Request(Op.PUSH).head() + b"\0" * 4_000):
            worker.send(message)
        worker.send_multipart([b"many", b"frames"])
        worker.send(Request(Op.PULL).head())
        reply, _ = Reply.unpack([worker.recv()])
        assert reply == Reply(0, more=True)


def test_a_message_larger_than_the_shard_is_not_even_read(server: Running) -> None:
    with client(server.address, WORKER_KEYS) as greedy:
        greedy.rcvtimeo = 700
        greedy.send(b"\0" * 10_000_000)
        with pytest.raises(zmq.Again):
            greedy.recv()
    test_a_worker_with_the_runs_key_is_served(server)
