"""Requests and replies over the network: ZeroMQ sockets, encrypted, open only to tasks that have the run's key."""

import threading

import zmq
from zmq.utils.monitor import recv_monitor_message

from paceline.errors import PeersGone, RunError
from paceline.paramserver.transports import zmq_frames
from paceline.paramserver.transports.connection import POLL_MS, REPLY_TIMEOUT_MS, ServerConnection
from paceline.paramserver.transports.curve_auth import require_client_key, set_client_keys
from paceline.paramserver.transports.server_transport import Unreachable
from paceline.paramserver.wire import Buffer, Reply, Request, WireError, WorkerName
from paceline.ports import UNRESTRICTED, bind_free_port
from paceline.recording.recorder import clock_ns
from paceline.train.context import Job

_MAX_IO_THREADS = 4
_HANDSHAKE_MS = 10_000
"""A client that has not authenticated this long after connecting is disconnected."""
_SPARE_MESSAGES = 64
_CONNECT_MS = 30_000
"""How long a worker waits for a server to accept its connection."""
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


def bind_socket(socket: "zmq.Socket[bytes]", job: Job) -> str:
    """Bind a socket to a free port of the task's host; returns its address."""

    def bind(port: int) -> str:
        address = f"tcp://{job.address}:{port}"
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise OSError(error.errno, str(error)) from None
        return address

    return bind_free_port(job.address, job.ports or UNRESTRICTED, bind)


class ZmqServerTransport:
    """A server's socket.

    `messages` is how many messages a worker may have in flight, `max_message_bytes` the largest message that is read.
    """

    def __init__(self, job: Job, *, messages: int, max_message_bytes: int) -> None:
        # Most of a server's work is done in these threads; with one thread, workers queue for it while cores are idle.
        self._sockets = zmq.Context(io_threads=min(job.workers, _MAX_IO_THREADS))
        self._router = router = self._sockets.socket(zmq.ROUTER)
        router.linger = zmq_frames.LINGER_MS
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        router.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
        router.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        # Doubled because ZeroMQ frees space in a queue only after half of the queue has been read.
        router.rcvhwm = router.sndhwm = 2 * messages + _SPARE_MESSAGES
        zmq_frames.set_heartbeat(router)
        self._authenticator = require_client_key(self._sockets, router, job)
        self.address = bind_socket(router, job)

    def next_sender(self) -> WorkerName:
        return self._router.recv()

    def read_request(self) -> list[Buffer]:
        if not self._router.getsockopt(zmq.RCVMORE):
            raise WireError("the message is empty")
        return zmq_frames.receive(self._router)

    def send_reply(self, worker: WorkerName, header: bytes, values: Buffer) -> None:
        try:
            self._router.send(worker, zmq.SNDMORE | zmq.DONTWAIT)
            zmq_frames.send(self._router, header, values)
        except zmq.ZMQError as error:
            raise Unreachable(str(error)) from None

    def close(self) -> None:
        self._authenticator.stop()
        self._router.close()
        self._sockets.term()


class ZmqConnection(ServerConnection):
    """A worker's connection to one server."""

    def __init__(
        self, sockets: "zmq.Context[zmq.Socket[bytes]]", task: str, address: str, job: Job, disconnect: threading.Event
    ) -> None:
        super().__init__(task, disconnect)
        self._socket = sockets.socket(zmq.DEALER)
        self._socket.routing_id = job.task.encode()
        self._socket.linger = zmq_frames.LINGER_MS
        self._socket.rcvtimeo, self._socket.sndtimeo = POLL_MS, REPLY_TIMEOUT_MS
        zmq_frames.set_heartbeat(self._socket)
        self._replies_due = 0
        """Requests whose reply has not arrived yet."""
        self._last_reply_ns = 0
        set_client_keys(self._socket, job)
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _REFUSED
        )
        try:
            self._connect(address)
        except RunError:
            self.abandon()
            raise

    def _connect(self, address: str) -> None:
        """Connect and authenticate now, before the training clock starts; an error says why it failed."""
        self._socket.connect(address)
        for _ in range(_CONNECT_MS // POLL_MS):
            if self._monitor.poll(POLL_MS):
                break
            self.raise_if_disconnected()
        else:
            raise PeersGone(f"{self.task} at {address} did not accept a connection for {_CONNECT_MS // 1000} s")
        if recv_monitor_message(self._monitor)["event"] & _REFUSED:
            raise RunError(f"{self.task} at {address} refused this worker's key")

    def send(self, request: Request, values: Buffer = b"") -> None:
        if not self._replies_due and clock_ns() - self._last_reply_ns > POLL_MS * 1_000_000:
            # ZeroMQ reconnects by itself, so a connection that broke while no reply was due does no harm: discard the
            # event. Checked only after a pause, since reading events takes longer than sending.
            self._lost_connection()
        self._replies_due += 1
        zmq_frames.send(self._socket, request.header(), values)

    def receive(self) -> tuple[Reply, Buffer]:
        for _ in range(REPLY_TIMEOUT_MS // POLL_MS):
            try:
                message = zmq_frames.receive(self._socket)
            except zmq.Again:
                self.raise_if_disconnected()
                if self._lost_connection():
                    # The request or its reply was lost; it is unknown which, and ZeroMQ sends neither again.
                    raise PeersGone(f"lost the connection to {self.task} while a reply was due") from None
            else:
                self._replies_due -= 1
                self._last_reply_ns = clock_ns()
                return Reply.unpack(message)
        raise self.timeout_error()

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()

    def abandon(self) -> None:
        self._socket.linger = 0
        self.close()

    def _lost_connection(self) -> bool:
        """Whether the connection broke since the last call of this method."""
        lost = False
        while int(self._monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            lost |= recv_monitor_message(self._monitor)["event"] == zmq.EVENT_DISCONNECTED
        return lost
