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
_LOOK_MS = 500
"""How long to wait for an answer before looking whether the connection still stands."""
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class ServerLink:
    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", task: str, address: str, job: Job) -> None:
        self.task = task
        self._socket = context.socket(zmq.DEALER)
        self._socket.routing_id = job.task.encode()
        self._socket.linger = frames.LINGER_MS
        self._socket.rcvtimeo, self._socket.sndtimeo = _LOOK_MS, _PATIENCE_MS
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, frames.HEARTBEAT_MS)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, frames.SILENCE_MS)
        self._owed = 0
        """Answers that have not come yet."""
        identify(self._socket, job)
        self._news = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _REFUSED)
        self._connect(address)

    def _connect(self, address: str) -> None:
        """Connected and let in before the clock starts, or an error that says why not."""
        self._socket.connect(address)
        if not self._news.poll(_CONNECT_MS):
            raise RunError(f"{self.task} at {address} does not answer")
        if recv_monitor_message(self._news)["event"] & _REFUSED:
            raise RunError(f"{self.task} at {address} refused this worker's key")

    def send(self, request: Request, values: Buffer = b"") -> None:
        if not self._owed:
            self._was_lost()  # A connection that broke while nothing was under way is mended by itself.
        self._owed += 1
        frames.send(self._socket, request.head(), values)

    def receive(self) -> tuple[Reply, Buffer]:
        for _ in range(_PATIENCE_MS // _LOOK_MS):
            try:
                message = frames.receive(self._socket)
            except zmq.Again:
                if self._was_lost():
                    # With it went a request or its answer; nobody knows which, and neither comes again.
                    raise RunError(f"the connection to {self.task} broke while it owed an answer") from None
            else:
                self._owed -= 1
                return Reply.unpack(message)
        raise RunError(f"no answer from {self.task} for {_PATIENCE_MS // 1000} s")

    def _was_lost(self) -> bool:
        """Whether the connection broke since this was last asked."""
        lost = False
        while int(self._news.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            lost |= recv_monitor_message(self._news)["event"] == zmq.EVENT_DISCONNECTED
        return lost

    def ask(self, request: Request) -> Reply:
        self.send(request)
        reply, _ = self.receive()
        return reply

    def close(self) -> None:
        self._socket.disable_monitor()
        self._news.close()
        self._socket.close()


def connect(context: "zmq.Context[zmq.Socket[bytes]]", peers: dict[str, dict[str, str]], job: Job) -> list[ServerLink]:
    """To every server, in their order."""
    names = [f"ps{number}" for number in range(job.servers)]
    return [ServerLink(context, name, peers[name]["parameters"], job) for name in names]
