"""How gradients and values pass between workers and servers: in messages, or through memory they share.

Shared, a worker's vectors lie one behind the other in a segment of its own: values, then gradient. Servers read the
gradient where it is. In ps-async they write a worker's values before they answer it. In ps-sync a value changes only
after every worker has pushed its gradient, and so is done with it, so there is one copy of them for all: the chief's.
"""

import numpy as np

from paceline.engines.torch.lanes import ServerLanes, lanes_of
from paceline.engines.torch.memory import SEGMENT, Segment, neighbours_vector
from paceline.engines.torch.wire import Buffer, WireError, Worker
from paceline.train.context import Job, Peers
from paceline.workloads.parameters import Vector

_CHIEF = "w0"


class WorkerSide:
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
        if self._segment and self._job.synchronous and not self._job.is_chief:
            self.values = neighbours_vector(peers[_CHIEF][SEGMENT], 2 * self._size)[: self._size]

    def outgoing(self, part: slice) -> Buffer:
        return b"" if self._segment else self.gradient[part]

    def incoming(self, part: slice, payload: Buffer) -> None:
        # Nothing comes with an answer that only says that the run is over.
        if not self._segment and len(payload):
            self.values[part] = np.frombuffer(payload, np.float32)


class ServerSide:
    """Gradients and values in messages."""

    def __init__(self, first: Vector, *, steady: bool) -> None:
        self.values, self.lanes = first, ServerLanes(first)
        self._steady = steady

    def gradient(self, _worker: Worker, part: slice, payload: Buffer) -> Vector:
        """Of a part of the values; WireError if what came with the message is not one."""
        size, wanted = memoryview(payload).nbytes, 4 * (part.stop - part.start)
        if size != wanted:
            raise WireError(f"{size} bytes for a bucket of {wanted}")
        return np.frombuffer(payload, np.float32)

    def deliver(self, _worker: Worker, part: slice) -> Buffer:
        """What goes with an answer."""
        # Where no other worker can change them before they are read, they are sent from where they lie.
        values = self.values[part]
        return values if self._steady else values.tobytes()


class SharedRowsSide(ServerSide):
    """Rows in the workers' memory."""

    def __init__(self, first: Vector, job: Job, rows: int, peers: Peers) -> None:
        super().__init__(first, steady=False)
        paths = {f"w{number}": peers[f"w{number}"][SEGMENT] for number in range(job.workers)}
        self.lanes = ServerLanes(first, lanes_of(paths, job.index, job.servers, rows))


class SharedServerSide(ServerSide):
    """Gradients and values in the workers' memory."""

    def __init__(self, first: Vector, part: slice, job: Job, size: int, peers: Peers) -> None:
        super().__init__(first, steady=True)
        names = [f"w{number}" for number in range(job.workers)]
        both = {name.encode(): neighbours_vector(peers[name][SEGMENT], 2 * size) for name in names}
        self._gradients = {name: vectors[size:][part] for name, vectors in both.items()}
        self._values = {name: vectors[:size][part] for name, vectors in both.items()}
        self._one_for_all = job.synchronous
        if job.synchronous:
            self.values = self._values[_CHIEF.encode()]
            self.values[:] = first
            self.lanes = ServerLanes(self.values)  # And nothing holds on to `first`, a whole model, any longer.

    def gradient(self, worker: Worker, part: slice, _payload: Buffer) -> Vector:
        return self._gradients[worker][part]

    def deliver(self, worker: Worker, part: slice) -> Buffer:
        if not self._one_for_all:
            np.copyto(self._values[worker][part], self.values[part])
        return b""
