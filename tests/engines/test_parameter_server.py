"""The parameter server behind its real socket: who is let in, and what garbage does."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq

from paceline.data.dataset import Ready
from paceline.data.images import LabelledImages
from paceline.engines.torch.curve import CLIENT_PUBLIC, CLIENT_SECRET, identify, new_keys
from paceline.engines.torch.server import serve
from paceline.engines.torch.wire import Op, Reply, Request
from paceline.train.context import Job, Outcome, TaskContext
from paceline.train.recorder import Recorder
from paceline.workloads.registry import workload

LOGREG = workload("logreg")
SERVER_KEYS, WORKER_KEYS = new_keys()
JOB = Job(
    run="test", task="ps0", role="ps", index=0, workers=1, servers=1, address="127.0.0.1", workload="logreg",
    size="", examples=None, momentum=0.0, transport="tcp",
    data=Ready(paths=("", "", "", ""), source="", synthetic=True), engine="torch", strategy="ps-async",
    synchronous=False, batch=10, seed=1, lr=0.5, stop=(), update_limit=None, updates_per_epoch=1, eval_every=None,
    eval_examples=None, checkpoint_every=None,
    threads=1, trace_every=None, record=True, secrets=SERVER_KEYS,
)  # fmt: skip


class Alone:
    """The rendezvous of a server whose only peer is the test."""

    def __init__(self) -> None:
        self.halted, self.address, self.bound = threading.Event(), "", threading.Event()

    def meet(self, addresses: dict[str, str]) -> dict[str, dict[str, str]]:
        self.address = addresses["parameters"]
        self.bound.set()
        return {}

    def start_together(self) -> None:
        """There is nobody to wait for."""

    def attach(self, kind: str, name: str, data: bytes) -> None:
        raise AssertionError("a server leaves no files")


class Running(msgspec.Struct):
    address: str
    outcome: list[Outcome]
    thread: threading.Thread


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    assert LOGREG.model
    alone, outcome = Alone(), []
    nothing = np.zeros((0, 784), np.uint8)
    labels = np.zeros(0, np.int64)
    data = LabelledImages(train_x=nothing, train_y=labels, test_x=nothing, test_y=labels, scale=1.0)
    context = TaskContext(
        job=JOB, workload=LOGREG, model=LOGREG.model, data=data, recorder=Recorder(tmp_path / "r"), rendezvous=alone
    )
    thread = threading.Thread(target=lambda: outcome.append(serve(context)), daemon=True)
    thread.start()
    assert alone.bound.wait(10)
    yield Running(alone.address, outcome, thread)
    if thread.is_alive():
        with client(alone.address, WORKER_KEYS) as worker:
            worker.send(Request(Op.LEAVE).head())
            thread.join(10)
    assert not thread.is_alive()


def client(address: str, secrets: dict[str, str] | None) -> "zmq.Socket[bytes]":
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    dealer.routing_id = b"w0"
    dealer.linger = 500
    dealer.rcvtimeo = 5_000
    if secrets is not None:
        identify(dealer, msgspec.structs.replace(JOB, secrets=secrets))
    dealer.connect(address)
    return dealer


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
