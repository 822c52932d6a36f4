"""Starts a real parameter server in a thread of the test, and connects clients to its socket or pipe."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from paceline.data.dataset import PreparedData
from paceline.data.images import LabelledImages
from paceline.errors import PeersGone
from paceline.paramserver.server import serve
from paceline.paramserver.transports.curve_auth import new_keys, set_client_keys
from paceline.paramserver.transports.pipe_transport import PipeConnection
from paceline.paramserver.wire import Op, Reply, Request
from paceline.recording.recorder import Recorder
from paceline.train.context import Job, Outcome, TaskContext
from paceline.workloads.registry import workload
from support.optimizers import sgd

LOGREG = workload("logreg")
VALUES = 7_850
"""How many parameters logreg has."""
_KEYS = new_keys()
SERVER_KEYS, WORKER_KEYS = _KEYS["ps"], _KEYS["w"]
JOB = Job(
    run="test", task="ps0", role="ps", index=0, workers=1, servers=1, address="127.0.0.1", workload="logreg",
    size="", examples=None, transport="tcp",
    data=PreparedData(paths=(), source="", synthetic=True), engine="torch", strategy="ps-async",
    entry_point="paceline.engines.torch.server:serve",
    synchronous=False, batch=10, seed=1, optimizer=sgd(0.5), stop=(),
    update_limit=None, updates_per_epoch=1, eval_every=None,
    eval_examples=None, checkpoint_every=None,
    threads=1, trace_every=None, record=True, secrets=SERVER_KEYS,
)  # fmt: skip


class SingleTaskRendezvous:
    """The rendezvous of a server whose only peers are the clients of the test."""

    def __init__(self, peers: dict[str, dict[str, str]]) -> None:
        self.halted, self.disconnect_requested, self.bound = threading.Event(), threading.Event(), threading.Event()
        self.address = ""
        self._peers = peers

    def exchange_addresses(self, addresses: dict[str, str]) -> dict[str, dict[str, str]]:
        self.address = addresses["parameters"]
        self.bound.set()
        return self._peers

    def report_threads(self, threads: int) -> None:
        raise AssertionError("only workers choose their threads, never a server")

    def start_together(self) -> None:
        """There is no other task to wait for."""

    def wait_for_new_job(self, why: str) -> Job:
        raise AssertionError("only workers are reassigned, never a server")

    def attach(self, kind: str, name: str, data: bytes) -> None:
        raise AssertionError("only workers attach files, never a server")


class RunningServer(msgspec.Struct):
    address: str
    outcome: list[Outcome]
    thread: threading.Thread


@contextmanager
def run_server(
    scratch: Path, workers: int = 1, peers: dict[str, dict[str, str]] | None = None, **changes: Any
) -> Iterator[RunningServer]:
    """Run a server with so many workers. At the end, sends DONE for all workers so that the server ends."""
    assert LOGREG.model
    rendezvous, outcome = SingleTaskRendezvous(peers or {}), []
    images = np.zeros((0, 784), np.uint8)
    labels = np.zeros(0, np.int64)
    data = LabelledImages(train_x=images, train_y=labels, test_x=images, test_y=labels, scale=1.0)
    context = TaskContext(
        job=msgspec.structs.replace(JOB, workers=workers, **changes),
        workload=LOGREG,
        model=LOGREG.model,
        data=data,
        recorder=Recorder(scratch / "records"),
        rendezvous=rendezvous,
    )
    thread = threading.Thread(target=lambda: outcome.append(serve(context)), daemon=True)
    thread.start()
    assert rendezvous.bound.wait(10)
    yield RunningServer(rendezvous.address, outcome, thread)
    for number in range(workers):
        if thread.is_alive():
            _send_done(rendezvous.address, number)
    thread.join(10)
    assert not thread.is_alive()
    assert outcome, "the server ended with an error"


def _send_done(address: str, number: int) -> None:
    if not address.startswith("tcp:"):
        connection = connect_pipe(address, number)
        with suppress(PeersGone):  # The server ends by itself if a test has sent the last DONE.
            connection.send(Request(Op.DONE))
        connection.close()
        return
    with connect_zmq(address, WORKER_KEYS, f"w{number}") as worker:
        worker.send(Request(Op.DONE).header())


def connect_pipe(address: str, number: int = 0, disconnect: threading.Event | None = None) -> PipeConnection:
    """A worker's connection over pipes; `number` is the number of the worker."""
    job = msgspec.structs.replace(JOB, task=f"w{number}", index=number)
    return PipeConnection("ps0", address, job, disconnect or threading.Event())


def connect_zmq(address: str, secrets: dict[str, str] | None, name: str = "w0") -> "zmq.Socket[bytes]":
    """A worker's raw socket; without `secrets` it does not authenticate."""
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    if name:
        dealer.routing_id = name.encode()
    dealer.linger = 500
    dealer.rcvtimeo = dealer.sndtimeo = 10_000
    if secrets is not None:
        set_client_keys(dealer, msgspec.structs.replace(JOB, secrets=secrets))
    dealer.connect(address)
    return dealer


def drain_replies(worker: "zmq.Socket[bytes]") -> None:
    """Receive all replies, until none has come for 0.3 s.

    libzmq 4.3.5 aborts the whole process (`!_io_error`) if a peer disconnects while libzmq has stopped reading from it,
    which it does when its receive queue is full.
    """
    while worker.poll(300):
        worker.recv_multipart()


def pull_and_push(worker: "zmq.Socket[bytes]") -> Reply:
    """Pull the values and push a gradient of zeros, as a worker does; returns the reply to the push."""
    worker.send(Request(Op.PULL).header())
    pulled, values = Reply.unpack([worker.recv()])
    assert memoryview(values).nbytes == 4 * VALUES
    worker.send(Request(Op.PUSH, pulled.update).header() + bytes(4 * VALUES))
    return Reply.unpack([worker.recv()])[0]
