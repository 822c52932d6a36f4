"""Requests and answers over the network: ZeroMQ, encrypted, and only for who has the run's key."""

import threading

import zmq
from zmq.utils.monitor import recv_monitor_message

from paceline.errors import PeersGone, RunError
from paceline.paramserver.transports import zmq_frames
from paceline.paramserver.transports.connection import LOOK_MS, PATIENCE_MS, ServerConnection
from paceline.paramserver.transports.curve_auth import guard, identify
from paceline.paramserver.transports.server_transport import Unreachable
from paceline.paramserver.wire import Buffer, Reply, Request, WireError, Worker
from paceline.recording.recorder import clock_ns
from paceline.train.context import Job

_MOST_IO_THREADS = 4
_HANDSHAKE_MS = 10_000
"""Whoever connects and has not shown a key by then is hung up on."""
_SPARE_MESSAGES = 64
_CONNECT_MS = 30_000
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class ZmqServerTransport:
    """A server's end, of which workers have at most so many messages on the way, none larger than said."""

    def __init__(self, job: Job, *, messages: int, largest: int) -> None:
        # Most of a server's work is in these threads; with one for all, workers queue for it while a core idles.
        self._sockets = zmq.Context(io_threads=min(job.workers, _MOST_IO_THREADS))
        self._router = router = self._sockets.socket(zmq.ROUTER)
        router.linger = zmq_frames.LINGER_MS
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        router.setsockopt(zmq.MAXMSGSIZE, largest)
        router.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        # What is read is told by the half, so twice as many fit.
        router.rcvhwm = router.sndhwm = 2 * messages + _SPARE_MESSAGES
        zmq_frames.set_heartbeat(router)
        self._authenticator = guard(self._sockets, router, job)
        self.address = f"tcp://{job.address}:{router.bind_to_random_port(f'tcp://{job.address}')}"

    def next_sender(self) -> Worker:
        return self._router.recv()

    def message(self) -> list[Buffer]:
        if not self._router.getsockopt(zmq.RCVMORE):
            raise WireError("an empty message")
        return zmq_frames.receive(self._router)

    def answer(self, worker: Worker, head: bytes, values: Buffer) -> None:
        try:
            self._router.send(worker, zmq.SNDMORE | zmq.DONTWAIT)
            zmq_frames.send(self._router, head, values)
        except zmq.ZMQError as error:
            raise Unreachable(str(error)) from None

    def close(self) -> None:
        self._authenticator.stop()
        self._router.close()
        self._sockets.term()


class ZmqConnection(ServerConnection):
    """A worker's end."""

    def __init__(
        self, sockets: "zmq.Context[zmq.Socket[bytes]]", task: str, address: str, job: Job, recalled: threading.Event
    ) -> None:
        super().__init__(task, recalled)
        self._socket = sockets.socket(zmq.DEALER)
        self._socket.routing_id = job.task.encode()
        self._socket.linger = zmq_frames.LINGER_MS
        self._socket.rcvtimeo, self._socket.sndtimeo = LOOK_MS, PATIENCE_MS
        zmq_frames.set_heartbeat(self._socket)
        self._owed = 0
        """Answers that have not come yet."""
        self._heard_ns = 0
        identify(self._socket, job)
        self._news = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _REFUSED)
        try:
            self._connect(address)
        except RunError:
            self.abandon()
            raise

    def _connect(self, address: str) -> None:
        """Connected and let in before the clock starts, or an error that says why not."""
        self._socket.connect(address)
        for _ in range(_CONNECT_MS // LOOK_MS):
            if self._news.poll(LOOK_MS):
                break
            self.heed_recall()
        else:
            raise PeersGone(f"{self.task} at {address} does not answer")
        if recv_monitor_message(self._news)["event"] & _REFUSED:
            raise RunError(f"{self.task} at {address} refused this worker's key")

    def send(self, request: Request, values: Buffer = b"") -> None:
        if not self._owed and clock_ns() - self._heard_ns > LOOK_MS * 1_000_000:
            # A connection that broke while nothing was under way is mended by itself. Looked at only after a pause:
            # asking for news takes longer than sending.
            self._was_lost()
        self._owed += 1
        zmq_frames.send(self._socket, request.head(), values)

    def receive(self) -> tuple[Reply, Buffer]:
        for _ in range(PATIENCE_MS // LOOK_MS):
            try:
                message = zmq_frames.receive(self._socket)
            except zmq.Again:
                self.heed_recall()
                if self._was_lost():
                    # With it went a request or its answer; nobody knows which, and neither comes again.
                    raise PeersGone(f"lost the connection to {self.task}, which owed an answer") from None
            else:
                self._owed -= 1
                self._heard_ns = clock_ns()
                return Reply.unpack(message)
        raise self.no_answer()

    def close(self) -> None:
        self._socket.disable_monitor()
        self._news.close()
        self._socket.close()

    def abandon(self) -> None:
        self._socket.linger = 0
        self.close()

    def _was_lost(self) -> bool:
        """Whether the connection broke since this was last asked."""
        lost = False
        while int(self._news.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            lost |= recv_monitor_message(self._news)["event"] == zmq.EVENT_DISCONNECTED
        return lost
