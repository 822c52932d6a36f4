"""A parameter server in a thread of the test's, behind its real socket, with nobody else in the run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from paceline.data.dataset import PreparedData
from paceline.data.images import LabelledImages
from paceline.paramserver.server import serve
from paceline.paramserver.transports.curve_auth import identify, new_keys
from paceline.paramserver.transports.pipe_transport import PipeConnection
from paceline.paramserver.wire import Op, Reply, Request
from paceline.recording.recorder import Recorder
from paceline.train.context import Job, Outcome, TaskContext
from paceline.workloads.registry import workload

LOGREG = workload("logreg")
VALUES = 7_850
SERVER_KEYS, WORKER_KEYS = new_keys()
JOB = Job(
    run="test", task="ps0", role="ps", index=0, workers=1, servers=1, address="127.0.0.1", workload="logreg",
    size="", examples=None, momentum=0.0, transport="tcp",
    data=PreparedData(paths=("", "", "", ""), source="", synthetic=True), engine="torch", strategy="ps-async",
    synchronous=False, batch=10, seed=1, lr=0.5, stop=(), update_limit=None, updates_per_epoch=1, eval_every=None,
    eval_examples=None, checkpoint_every=None,
    threads=1, trace_every=None, record=True, secrets=SERVER_KEYS,
)  # fmt: skip


class Alone:
    """The rendezvous of a server whose only peers are the test's."""

    def __init__(self, peers: dict[str, dict[str, str]]) -> None:
        self.halted, self.recalled, self.bound = threading.Event(), threading.Event(), threading.Event()
        self.address = ""
        self._peers = peers

    def meet(self, addresses: dict[str, str]) -> dict[str, dict[str, str]]:
        self.address = addresses["parameters"]
        self.bound.set()
        return self._peers

    def start_together(self) -> None:
        """There is nobody to wait for."""

    def regroup(self, why: str) -> Job:
        raise AssertionError("a server has no servers to lose")

    def attach(self, kind: str, name: str, data: bytes) -> None:
        raise AssertionError("a server leaves no files")


class Running(msgspec.Struct):
    address: str
    outcome: list[Outcome]
    thread: threading.Thread


@contextmanager
def running(
    scratch: Path, workers: int = 1, peers: dict[str, dict[str, str]] | None = None, **changes: Any
) -> Iterator[Running]:
    """A server of so many workers; what they have not told it by then, that they leave, is told at the end."""
    assert LOGREG.model
    alone, outcome = Alone(peers or {}), []
    nothing = np.zeros((0, 784), np.uint8)
    labels = np.zeros(0, np.int64)
    data = LabelledImages(train_x=nothing, train_y=labels, test_x=nothing, test_y=labels, scale=1.0)
    context = TaskContext(
        job=msgspec.structs.replace(JOB, workers=workers, **changes),
        workload=LOGREG,
        model=LOGREG.model,
        data=data,
        recorder=Recorder(scratch / "records"),
        rendezvous=alone,
    )
    thread = threading.Thread(target=lambda: outcome.append(serve(context)), daemon=True)
    thread.start()
    assert alone.bound.wait(10)
    yield Running(alone.address, outcome, thread)
    for number in range(workers):
        if thread.is_alive():
            _leave(alone.address, number)
    thread.join(10)
    assert not thread.is_alive()
    assert outcome, "the server ended with an error"


def _leave(address: str, number: int) -> None:
    if not address.startswith("tcp:"):
        link = neighbour(address, number)
        link.send(Request(Op.LEAVE))
        link.close()
        return
    with client(address, WORKER_KEYS, f"w{number}") as worker:
        worker.send(Request(Op.LEAVE).head())


def neighbour(address: str, number: int = 0, recalled: threading.Event | None = None) -> PipeConnection:
    """A worker beside the server."""
    job = msgspec.structs.replace(JOB, task=f"w{number}", index=number)
    return PipeConnection("ps0", address, job, recalled or threading.Event())


def client(address: str, secrets: dict[str, str] | None, name: str = "w0") -> "zmq.Socket[bytes]":
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    if name:
        dealer.routing_id = name.encode()
    dealer.linger = 500
    dealer.rcvtimeo = dealer.sndtimeo = 10_000
    if secrets is not None:
        identify(dealer, msgspec.structs.replace(JOB, secrets=secrets))
    dealer.connect(address)
    return dealer


def hear_out(worker: "zmq.Socket[bytes]") -> None:
    """Take all answers, until none comes any more.

    libzmq 4.3.5 aborts the whole process (`!_io_error`) if a peer goes while it has stopped reading from it, which it
    does when more is waiting than fits.
    """
    while worker.poll(300):
        worker.recv_multipart()


def is_served(worker: "zmq.Socket[bytes]") -> Reply:
    """A pull and a push of zeros, as a worker makes them; what the push was told."""
    worker.send(Request(Op.PULL).head())
    version, values = Reply.unpack([worker.recv()])
    assert memoryview(values).nbytes == 4 * VALUES
    worker.send(Request(Op.PUSH, version.update).head() + bytes(4 * VALUES))
    return Reply.unpack([worker.recv()])[0]
