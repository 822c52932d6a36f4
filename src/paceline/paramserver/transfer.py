"""How gradients and values pass between workers and servers: in messages, or through memory they share.

Shared, a worker's vectors lie one behind the other in a segment of its own: values, then gradient. Servers read the
gradient where it is. In ps-async they write a worker's values before they answer it. In ps-sync a value changes only
after every worker has pushed its gradient, and so is done with it, so there is one copy of them for all: the chief's.
"""

import numpy as np

from paceline.paramserver.row_buffers import RowBuffer, ServerRowBuffers, map_row_buffer
from paceline.paramserver.transports.shared_memory import SEGMENT, Segment, is_peer_path, map_peer_vector
from paceline.paramserver.wire import Buffer, WireError, Worker
from paceline.train.context import Job, Peers
from paceline.workloads.parameters import Vector

_CHIEF = "w0"


def workers_share_values(job: Job) -> bool:
    """Whether no worker still reads values when they change."""
    return job.synchronous and not job.backup


class WorkerTransfer:
    """A worker's vectors, and what it puts into messages and takes out of them."""

    def __init__(self, job: Job, size: int) -> None:
        self._job, self._size = job, size
        self._segment = Segment(2 * size) if job.transport == "memory" else None
        both = self._segment.vector if self._segment else np.zeros(2 * size, np.float32)
        self.values, self.gradient = both[:size], both[size:]

    @property
    def address(self) -> dict[str, str]:
        return {SEGMENT: self._segment.path} if self._segment else {}

    def meet(self, peers: Peers) -> None:
        if self._segment and workers_share_values(self._job) and not self._job.is_chief:
            self.values = map_peer_vector(peers[_CHIEF][SEGMENT], 2 * self._size)[: self._size]

    def outgoing(self, part: slice) -> Buffer:
        return b"" if self._segment else self.gradient[part]

    def incoming(self, part: slice, payload: Buffer) -> None:
        # Nothing comes with an answer that only says that the run is over.
        if not self._segment and len(payload):
            self.values[part] = np.frombuffer(payload, np.float32)


class ServerTransfer:
    """Gradients and values in messages."""

    def __init__(self, first: Vector, *, steady: bool) -> None:
        self.values, self.lanes = first, ServerRowBuffers(first)
        self._steady = steady

    def gradient(self, _worker: Worker, part: slice, payload: Buffer) -> Vector:
        """Of a part of the values; WireError if what came with the message is not one."""
        size, wanted = memoryview(payload).nbytes, 4 * (part.stop - part.start)
        if size != wanted:
            raise WireError(f"{size} bytes for a bucket of {wanted}")
        return np.frombuffer(payload, np.float32)

    def welcome(self, worker: Worker, where: Buffer) -> None:
        """A worker begins; if it comes back as another process, its memory is another, too."""

    def deliver(self, _worker: Worker, part: slice) -> Buffer:
        """What goes with an answer."""
        # Where no other worker can change them before they are read, they are sent from where they lie.
        values = self.values[part]
        return values if self._steady else values.tobytes()


class SharedRowTransfer(ServerTransfer):
    """Rows in the workers' memory."""

    def __init__(self, first: Vector, job: Job, rows: int, peers: Peers) -> None:
        super().__init__(first, steady=False)
        self._job, self._rows = job, rows
        self._paths = _paths(job, peers)
        self.lanes = ServerRowBuffers(first, {worker: self._lane(path) for worker, path in self._paths.items()})

    def welcome(self, worker: Worker, where: Buffer) -> None:
        if (path := _path(where)) != self._paths[worker]:
            self.lanes.replace(worker, self._lane(path))
            self._paths[worker] = path

    def _lane(self, path: str) -> RowBuffer:
        return map_row_buffer(path, self._job.index, self._job.servers, self._rows)


class SharedServerTransfer(ServerTransfer):
    """Gradients and values in the workers' memory."""

    def __init__(self, first: Vector, part: slice, job: Job, size: int, peers: Peers) -> None:
        super().__init__(first, steady=True)
        self._part, self._size = part, size
        self._gradients: dict[Worker, Vector] = {}
        self._values: dict[Worker, Vector] = {}
        self._paths: dict[Worker, str] = {}
        for worker, path in _paths(job, peers).items():
            self._map(worker, path)
        self._one_for_all = workers_share_values(job)
        if self._one_for_all:
            self.values = self._values[_CHIEF.encode()]
            self.values[:] = first
            self.lanes = ServerRowBuffers(self.values)  # And nothing holds on to `first`, a whole model, any longer.

    def welcome(self, worker: Worker, where: Buffer) -> None:
        if (path := _path(where)) != self._paths[worker]:
            self._map(worker, path)

    def _map(self, worker: Worker, path: str) -> None:
        both = map_peer_vector(path, 2 * self._size)
        self._gradients[worker], self._values[worker] = both[self._size :][self._part], both[: self._size][self._part]
        self._paths[worker] = path

    def gradient(self, worker: Worker, part: slice, _payload: Buffer) -> Vector:
        return self._gradients[worker][part]

    def deliver(self, worker: Worker, part: slice) -> Buffer:
        if not self._one_for_all:
            np.copyto(self._values[worker][part], self.values[part])
        return b""


def _paths(job: Job, peers: Peers) -> dict[Worker, str]:
    names = [f"w{number}" for number in range(job.workers)]
    return {name.encode(): peers[name][SEGMENT] for name in names}


def _path(where: Buffer) -> str:
    """WireError if it cannot be where a segment is."""
    text = bytes(where).decode("ascii", "replace")
    if not is_peer_path(text):
        raise WireError(f"memory at {text[:40]!r}")
    return text
