"""How the driver tells the workers what Spark measured of their steps: encrypted messages between driver and workers.

Times in messages are nanoseconds of the driver's monotonic clock. Workers ask for the driver's time once a second and
convert them to their own clock.
"""

import queue
import threading
from collections.abc import Callable

import msgspec
import zmq

from paceline.errors import PeersGone
from paceline.paramserver.transports import zmq_frames
from paceline.paramserver.transports.curve_auth import require_client_key, set_client_keys
from paceline.paramserver.transports.zmq_transport import bind_socket
from paceline.recording.recorder import clock_ns
from paceline.train.context import Job, Outcome, TaskContext

ADDRESS = "spark-steps"
"""The purpose under which the driver announces the address of this channel."""
_WAKE_UP = "inproc://wake-up"
_POLL_MS = 100
_MAX_BYTES = 16 * 2**20
_PING_EVERY_NS = 1_000_000_000
_SILENT_NS = 60_000_000_000
"""How long a worker waits for an answer before it takes the driver for lost. The controller notices its death earlier;
this is for a driver that was replaced meanwhile."""


class StepTimes(msgspec.Struct, frozen=True, array_like=True):
    """One step of one worker. A worker without a task in this step has only `start_ns` and `end_ns`."""

    step: int
    update: int
    loss: float
    start_ns: int
    end_ns: int
    launch_ns: int = 0
    """When the worker's task was started; 0 if it had none."""
    pull_ns: int = 0
    data_ns: int = 0
    compute_ns: int = 0
    push_ns: int = 0
    scheduler_ns: int = 0
    gc_ns: int = 0


class Steps(msgspec.Struct, frozen=True, tag=True):
    steps: list[StepTimes]


class Work(msgspec.Struct, frozen=True, tag=True):
    """A record of work that is not a step: an evaluation or a checkpoint."""

    kind: int
    start_ns: int
    end_ns: int
    update: int
    loss: float
    accuracy: float
    flags: int


class Busy(msgspec.Struct, frozen=True, tag=True):
    """The driver does work of this RecordKind instead of steps; 0: it makes steps again."""

    kind: int


class Pong(msgspec.Struct, frozen=True, tag=True):
    asked_ns: int
    """The worker's time, as it was in the Ping."""
    driver_ns: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """The run is over: what the worker reports."""

    outcome: Outcome


FromDriver = Steps | Work | Busy | Pong | Done


class Joined(msgspec.Struct, frozen=True, tag=True):
    """A worker is there, for the first time or again."""


class Ping(msgspec.Struct, frozen=True, tag=True):
    asked_ns: int


class Halt(msgspec.Struct, frozen=True, tag=True):
    """The controller asked the workers to finish."""


class ExecutorEnded(msgspec.Struct, frozen=True, tag=True):
    """The worker's executor has ended; Spark starts another one."""

    why: str


FromWorker = Joined | Ping | Halt | ExecutorEnded
_encode = msgspec.msgpack.encode


class DriverChannel:
    """The driver's side. A thread answers the workers, so that they get the time while a job runs."""

    def __init__(self, job: Job, halted: threading.Event) -> None:
        self._halted = halted
        self.on_executor_end: Callable[[str, str], None] | None = None
        """Called with the task of a worker and why its executor ended."""
        self._sockets = zmq.Context()
        self._router = router = self._sockets.socket(zmq.ROUTER)
        router.linger = zmq_frames.LINGER_MS
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        router.setsockopt(zmq.MAXMSGSIZE, _MAX_BYTES)
        zmq_frames.set_heartbeat(router)
        self._authenticator = require_client_key(self._sockets, router, job)
        self.address = bind_socket(router, job)
        self._wake_up, self._woken = self._sockets.socket(zmq.PAIR), self._sockets.socket(zmq.PAIR)
        self._woken.bind(_WAKE_UP)
        self._wake_up.connect(_WAKE_UP)
        self._outgoing: queue.SimpleQueue[tuple[bytes, bytes] | None] = queue.SimpleQueue()
        self._undelivered: dict[bytes, list[bytes]] = {}
        self._joined: set[bytes] = set()
        self._thread = threading.Thread(target=self._run, name="step-channel", daemon=True)
        self._thread.start()

    @property
    def joined(self) -> int:
        """The number of workers that have joined so far."""
        return len(self._joined)

    def send(self, task: str, message: FromDriver) -> None:
        self._outgoing.put((task.encode(), _encode(message)))
        self._wake_up.send(b"")

    def close(self) -> None:
        """Return once everything that was sent is on its way."""
        self._outgoing.put(None)
        self._wake_up.send(b"")
        self._thread.join()
        self._authenticator.stop()
        for socket in (self._wake_up, self._woken, self._router):
            socket.close()
        self._sockets.term()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        decoder = msgspec.msgpack.Decoder(FromWorker)
        while True:
            ready = dict(poller.poll())
            if self._woken in ready:
                self._woken.recv()
                message = self._outgoing.get()
                if message is None:
                    return
                self._deliver(*message)
            if self._router in ready:
                worker, text = self._router.recv_multipart()
                self._answer(worker, decoder.decode(text))

    def _answer(self, worker: bytes, message: FromWorker) -> None:
        match message:
            case Ping(asked_ns):
                self._deliver(worker, _encode(Pong(asked_ns, clock_ns())))
            case Halt():
                self._halted.set()
            case ExecutorEnded(why):
                if self.on_executor_end:
                    self.on_executor_end(worker.decode(), why)
            case Joined():
                self._joined.add(worker)
                for text in self._undelivered.pop(worker, []):
                    self._deliver(worker, text)

    def _deliver(self, worker: bytes, text: bytes) -> None:
        if worker in self._undelivered:
            self._undelivered[worker].append(text)
            return
        try:
            self._router.send_multipart([worker, text], zmq.DONTWAIT)
        except zmq.ZMQError:  # The worker is gone: keep what it should have until it is back.
            self._undelivered[worker] = [text]


class WorkerChannel:
    """A worker's side, used by one thread."""

    def __init__(self, context: TaskContext, address: str) -> None:
        self._rendezvous = context.rendezvous
        self._sockets = zmq.Context()
        self._socket = socket = self._sockets.socket(zmq.DEALER)
        socket.routing_id = context.job.task.encode()
        socket.linger = zmq_frames.LINGER_MS
        zmq_frames.set_heartbeat(socket)
        set_client_keys(socket, context.job)
        socket.connect(address)
        self._decoder = msgspec.msgpack.Decoder(FromDriver)
        self._clock = DriverClock()
        self._pinged_ns = self._heard_ns = self._listened_ns = clock_ns()
        self._halt_sent = False
        self._send(Joined())
        self._ping()

    def receive(self) -> FromDriver | None:
        """The next message other than Pong; None if there is none for a moment. PeersGone if the driver is lost."""
        if self._rendezvous.disconnect_requested.is_set():
            raise PeersGone("the controller disconnected this worker from the driver")
        if self._rendezvous.halted.is_set() and not self._halt_sent:
            self._halt_sent = True
            self._send(Halt())
        now_ns = clock_ns()
        # The driver is not silent while this worker does not listen, such as at the barrier.
        self._heard_ns += now_ns - self._listened_ns
        self._listened_ns = now_ns
        if now_ns - self._heard_ns > _SILENT_NS:
            raise PeersGone(f"no answer from the driver for {_SILENT_NS // 10**9} s")
        if now_ns - self._pinged_ns > _PING_EVERY_NS:
            self._ping()
        has_message = self._socket.poll(_POLL_MS)
        self._listened_ns = clock_ns()
        if not has_message:
            return None
        message: FromDriver = self._decoder.decode(self._socket.recv())
        self._heard_ns = clock_ns()
        if isinstance(message, Pong):
            self._clock.add(message.asked_ns, message.driver_ns, self._heard_ns)
            return None
        return message

    def executor_ended(self, why: str) -> None:
        """Tell the driver that this worker's executor has ended."""
        self._send(ExecutorEnded(why))

    def own_ns(self, driver_ns: int) -> int:
        """A time of the driver's clock on this worker's clock."""
        return self._clock.own_ns(driver_ns)

    def close(self) -> None:
        self._socket.close()
        self._sockets.term()

    def _ping(self) -> None:
        self._pinged_ns = clock_ns()
        self._send(Ping(self._pinged_ns))

    def _send(self, message: FromWorker) -> None:
        self._socket.send(_encode(message))


class DriverClock:
    """The difference between the driver's clock and this one, from the quickest of the latest round trips."""

    _KEPT = 30

    def __init__(self) -> None:
        self._trips: list[tuple[int, int]] = []
        """Of each round trip: how long it took, and the difference of the clocks."""

    def add(self, asked_ns: int, driver_ns: int, answered_ns: int) -> None:
        self._trips.append((answered_ns - asked_ns, driver_ns - (asked_ns + answered_ns) // 2))
        del self._trips[: -self._KEPT]

    def own_ns(self, driver_ns: int) -> int:
        # On one machine the clocks are the same, and the difference is half of the asymmetry of a round trip: it must
        # not move times by that much.
        took_ns, difference_ns = min(self._trips, default=(0, 0))
        return driver_ns if abs(difference_ns) <= took_ns else driver_ns - difference_ns
