"""A worker of the parameter-server strategies. Sync and async differ only in when the server answers."""

import numpy as np
import zmq
from numpy.typing import NDArray
from zmq.utils.monitor import recv_monitor_message

from paceline.engines.torch import frames
from paceline.engines.torch.curve import identify
from paceline.engines.torch.network import Network
from paceline.engines.torch.wire import Op, Reply, Request
from paceline.errors import RunError
from paceline.train.batches import Images, Labels
from paceline.train.context import TaskContext
from paceline.train.flat import shards
from paceline.train.recorder import Kind, clock_ns
from paceline.train.strategy import Predictor, Step
from paceline.workloads.model import Parameters

_PATIENCE_MS = 600_000
_CONNECT_MS = 30_000


class ServerLink:
    """This worker's connection to one server and the part of the parameters it holds."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", task: str, address: str, part: slice, worker: TaskContext
    ) -> None:
        self.task, self.part = task, part
        self._socket = context.socket(zmq.DEALER)
        self._socket.routing_id = worker.job.task.encode()
        self._socket.linger = frames.LINGER_MS
        self._socket.rcvtimeo = self._socket.sndtimeo = _PATIENCE_MS
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, frames.HEARTBEAT_MS)
        self._large = (part.stop - part.start) * 4 >= frames.ZERO_COPY_BYTES
        identify(self._socket, worker.job)
        self._connect(address)

    def _connect(self, address: str) -> None:
        """Connected and let in before the clock starts, or an error that says why not."""
        refused = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        monitor = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | refused)
        try:
            self._socket.connect(address)
            if not monitor.poll(_CONNECT_MS):
                raise RunError(f"{self.task} at {address} does not answer")
            if recv_monitor_message(monitor)["event"] & refused:
                raise RunError(f"{self.task} at {address} refused this worker's key")
        finally:
            self._socket.disable_monitor()
            monitor.close()

    def send(self, request: Request, values: NDArray[np.float32] | bytes = b"") -> None:
        frames.send(self._socket, request.pack(values), large=self._large)

    def receive(self, vector: NDArray[np.float32]) -> Reply:
        """The answer; parameters that come with it go to their place in `vector`."""
        try:
            message = frames.receive(self._socket, large=self._large)
        except zmq.Again:
            raise RunError(f"no answer from {self.task} for {_PATIENCE_MS // 1000} s") from None
        reply, values = Reply.unpack(message)
        if len(values):
            vector[self.part] = np.frombuffer(values, np.float32)
        return reply

    def close(self) -> None:
        self._socket.close()


class ParameterServerWorker:
    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._job, self._recorder = job, context.recorder
        self._network = Network.ready(context.workload.model, job.seed, job.batch)
        peers = context.rendezvous.meet({})
        self._sockets = zmq.Context()
        parts = shards(self._network.vector.size, job.servers)
        self._links = [
            ServerLink(self._sockets, f"ps{number}", peers[f"ps{number}"]["parameters"], part, context)
            for number, part in enumerate(parts)
        ]
        self._version = 0

    def start(self) -> bool:
        with self._recorder.pull:
            return self._ask(Request(Op.PULL)).more

    def step(self, x: Images, y: Labels) -> Step:
        network, recorder = self._network, self._recorder
        with recorder.compute:
            loss = network.differentiate(x, y)
        with recorder.push:
            request = Request(Op.PUSH, self._version)
            for link in self._links:
                link.send(request, network.gradient[link.part])
        asked = clock_ns()
        replies = [link.receive(network.vector) for link in self._links]
        took = clock_ns() - asked
        # What the server held back for slower workers is waiting, not transfer.
        waited = min(took, max(reply.waited_ns for reply in replies))
        if self._job.synchronous:
            recorder.write(Kind.WAIT, asked, waited)
        recorder.write(Kind.PULL, asked + waited, took - waited)
        first = replies[0]
        self._version = first.update
        return Step(loss, first.update, first.staleness, first.more, first.applied)

    def stop_now(self, mine: bool, update: int) -> bool:
        if mine:
            self._ask(Request(Op.STOP))
        return mine

    def finish(self) -> None:
        if self._job.is_chief:
            with self._recorder.wait:
                self._ask(Request(Op.FINAL))
        for link in self._links:
            link.send(Request(Op.LEAVE))

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def close(self) -> None:
        for link in self._links:
            link.close()
        self._sockets.term()

    def _ask(self, request: Request) -> Reply:
        """The same request to every server; the first one's answer counts."""
        for link in self._links:
            link.send(request)
        first, *_ = [link.receive(self._network.vector) for link in self._links]
        return first
