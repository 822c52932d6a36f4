"""A worker's connection to one server."""

import zmq
from zmq.utils.monitor import recv_monitor_message

from paceline.engines.torch import frames
from paceline.engines.torch.curve import identify
from paceline.engines.torch.wire import Buffer, Reply, Request
from paceline.errors import RunError
from paceline.train.context import Job

_PATIENCE_MS = 600_000
_CONNECT_MS = 30_000


class ServerLink:
    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", task: str, address: str, job: Job) -> None:
        self.task = task
        self._socket = context.socket(zmq.DEALER)
        self._socket.routing_id = job.task.encode()
        self._socket.linger = frames.LINGER_MS
        self._socket.rcvtimeo = self._socket.sndtimeo = _PATIENCE_MS
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, frames.HEARTBEAT_MS)
        identify(self._socket, job)
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

    def send(self, request: Request, values: Buffer = b"") -> None:
        frames.send(self._socket, request.head(), values)

    def receive(self) -> tuple[Reply, Buffer]:
        try:
            return Reply.unpack(frames.receive(self._socket))
        except zmq.Again:
            raise RunError(f"no answer from {self.task} for {_PATIENCE_MS // 1000} s") from None

    def ask(self, request: Request, values: Buffer = b"") -> Reply:
        self.send(request, values)
        reply, _ = self.receive()
        return reply

    def close(self) -> None:
        self._socket.close()


def connect(context: "zmq.Context[zmq.Socket[bytes]]", peers: dict[str, dict[str, str]], job: Job) -> list[ServerLink]:
    """To every server, in their order."""
    names = [f"ps{number}" for number in range(job.servers)]
    return [ServerLink(context, name, peers[name]["parameters"], job) for name in names]
