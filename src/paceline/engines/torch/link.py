"""A worker's connections to the servers."""

import threading

import zmq
from zmq.utils.monitor import recv_monitor_message

from paceline.engines.torch import frames
from paceline.engines.torch.curve import identify
from paceline.engines.torch.wire import Buffer, Reply, Request
from paceline.errors import PeersGone, RunError
from paceline.train.context import Job, Peers, TaskContext
from paceline.train.recorder import clock_ns

_PATIENCE_MS = 600_000
_CONNECT_MS = 30_000
_LOOK_MS = 1_000
"""How long to wait for an answer before looking whether the connection still stands."""
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class ServerLink:
    """To one server. PeersGone if it is no longer there, or the controller wants this worker to let go of it."""

    def __init__(
        self, sockets: "zmq.Context[zmq.Socket[bytes]]", task: str, address: str, job: Job, recalled: threading.Event
    ) -> None:
        self.task = task
        self._recalled = recalled
        self._socket = sockets.socket(zmq.DEALER)
        self._socket.routing_id = job.task.encode()
        self._socket.linger = frames.LINGER_MS
        self._socket.rcvtimeo, self._socket.sndtimeo = _LOOK_MS, _PATIENCE_MS
        if address.startswith("tcp:"):
            frames.set_heartbeat(self._socket)
        self._owed = 0
        """Answers that have not come yet."""
        self._heard_ns = 0
        identify(self._socket, job)
        self._news = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _REFUSED)
        self._connect(address)

    def _connect(self, address: str) -> None:
        """Connected and let in before the clock starts, or an error that says why not."""
        self._socket.connect(address)
        for _ in range(_CONNECT_MS // _LOOK_MS):
            if self._news.poll(_LOOK_MS):
                break
            self._heed_recall()
        else:
            raise PeersGone(f"{self.task} at {address} does not answer")
        if recv_monitor_message(self._news)["event"] & _REFUSED:
            raise RunError(f"{self.task} at {address} refused this worker's key")

    def send(self, request: Request, values: Buffer = b"") -> None:
        if not self._owed and clock_ns() - self._heard_ns > _LOOK_MS * 1_000_000:
            # A connection that broke while nothing was under way is mended by itself. Looked at only after a pause:
            # asking for news takes longer than sending.
            self._was_lost()
        self._owed += 1
        frames.send(self._socket, request.head(), values)

    def receive(self) -> tuple[Reply, Buffer]:
        for _ in range(_PATIENCE_MS // _LOOK_MS):
            try:
                message = frames.receive(self._socket)
            except zmq.Again:
                self._heed_recall()
                if self._was_lost():
                    # With it went a request or its answer; nobody knows which, and neither comes again.
                    raise PeersGone(f"lost the connection to {self.task}, which owed an answer") from None
            else:
                self._owed -= 1
                self._heard_ns = clock_ns()
                return Reply.unpack(message)
        raise RunError(f"no answer from {self.task} for {_PATIENCE_MS // 1000} s")

    def _heed_recall(self) -> None:
        if self._recalled.is_set():
            raise PeersGone(f"recalled from {self.task}")

    def _was_lost(self) -> bool:
        """Whether the connection broke since this was last asked."""
        lost = False
        while int(self._news.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            lost |= recv_monitor_message(self._news)["event"] == zmq.EVENT_DISCONNECTED
        return lost

    def ask(self, request: Request, values: Buffer = b"") -> Reply:
        self.send(request, values)
        reply, _ = self.receive()
        return reply

    def close(self) -> None:
        self._socket.disable_monitor()
        self._news.close()
        self._socket.close()


class ServerLinks(list[ServerLink]):
    """To every server, in their order."""

    def __init__(self, context: TaskContext, peers: Peers) -> None:
        super().__init__()
        job, recalled = context.job, context.rendezvous.recalled
        self._sockets = zmq.Context()
        try:
            for name in (f"ps{number}" for number in range(job.servers)):
                self.append(ServerLink(self._sockets, name, peers[name]["parameters"], job, recalled))
        except PeersGone:
            self.abandon()
            raise

    def close(self) -> None:
        """Once all that was sent is on its way."""
        for link in self:
            link.close()
        self._sockets.term()

    def abandon(self) -> None:
        """At once: nobody is there to take what was sent."""
        self._sockets.destroy(linger=0)
