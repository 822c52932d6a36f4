"""Passes gradients and values between workers and servers: in messages, or through shared memory.

With shared memory, each worker has a segment with two vectors: its values, then its gradient. The servers read the
gradient there. In ps-async they write the worker's values before they reply. In ps-sync a value changes only after
every worker has pushed its gradient, so no worker still reads it; therefore one copy of the values, in the segment of
the chief (worker 0), serves all workers.
"""

import numpy as np

from paceline.paramserver.row_buffers import RowBuffer, ServerRowBuffers, map_row_buffer
from paceline.paramserver.transports.shared_memory import SEGMENT, Segment, is_peer_path, map_peer_vector
from paceline.paramserver.wire import Buffer, WireError, WorkerName
from paceline.plan.roles import CHIEF, WORKER, task_names
from paceline.train.context import Job, Peers
from paceline.train.strategy import Exchanged
from paceline.workloads.parameters import Vector


def workers_share_values(job: Job) -> bool:
    """Whether all workers may use one copy of the values: no worker still reads them when they change."""
    return job.synchronous and not job.backup


class WorkerTransfer:
    """A worker's side: its values and gradient, and the payloads of its requests and replies."""

    def __init__(self, job: Job, size: int) -> None:
        self._job, self._size = job, size
        self._segment = Segment(2 * size) if job.transport == "memory" else None
        memory = self._segment.vector if self._segment else np.zeros(2 * size, np.float32)
        self.values, self.gradient = memory[:size], memory[size:]
        self.exchanged = Exchanged()

    @property
    def address(self) -> dict[str, str]:
        """What the peers need to map this worker's memory; empty if values are sent in messages."""
        return {SEGMENT: self._segment.path} if self._segment else {}

    def map_peers(self, peers: Peers) -> None:
        """Use the chief's copy of the values, if all workers share one."""
        if self._segment and workers_share_values(self._job) and not self._job.is_chief:
            self.values = map_peer_vector(peers[CHIEF][SEGMENT], 2 * self._size)[: self._size]

    def push_payload(self, part: slice) -> Buffer:
        """The payload of a push: a part of the gradient, or nothing if the server reads it from shared memory."""
        self.exchanged.sent += 4 * (part.stop - part.start)
        return b"" if self._segment else self.gradient[part]

    def store_reply(self, part: slice, payload: Buffer) -> None:
        """Copy the values of a reply into this worker's values."""
        # A reply that ends the run has no payload.
        if not self._segment and not len(payload):
            return
        self.exchanged.received += 4 * (part.stop - part.start)
        if not self._segment:
            self.values[part] = np.frombuffer(payload, np.float32)

    def store_pulled(self, part: slice, payload: Buffer) -> None:
        """Copy the values of the reply to a pull into this worker's values."""
        WorkerTransfer.store_reply(self, part, payload)


class ServerTransfer:
    """A server's side, with gradients and values in messages.

    `values` are the current values of the shard. `zero_copy` says that no other worker can change the values of a reply
    before the reply is sent, so they need not be copied.
    """

    def __init__(self, initial_values: Vector, *, zero_copy: bool) -> None:
        self.values, self.row_buffers = initial_values, ServerRowBuffers(initial_values)
        self._zero_copy = zero_copy

    def gradient(self, _worker: WorkerName, part: slice, payload: Buffer) -> Vector:
        """The gradient of a part of the values; WireError if the payload has the wrong size."""
        size, expected = memoryview(payload).nbytes, 4 * (part.stop - part.start)
        if size != expected:
            raise WireError(f"the payload has {size} bytes, the bucket has {expected}")
        return np.frombuffer(payload, np.float32)

    def map_worker(self, worker: WorkerName, path: Buffer) -> None:
        """Map the memory of a worker that starts: after a restart it is another process with other memory."""

    def reply_payload(self, _worker: WorkerName, part: slice) -> Buffer:
        """The payload of a reply that carries a part of the values."""
        values = self.values[part]
        return values if self._zero_copy else values.tobytes()

    def pull_payload(self, worker: WorkerName, part: slice) -> Buffer:
        """The payload of the reply to a pull."""
        return self.reply_payload(worker, part)


class SharedRowTransfer(ServerTransfer):
    """A server's side for sparse models, with rows in the workers' shared memory."""

    def __init__(self, initial_values: Vector, job: Job, rows: int, peers: Peers) -> None:
        super().__init__(initial_values, zero_copy=False)
        self._job, self._rows = job, rows
        self._paths = _segment_paths(job, peers)
        buffers = {worker: self._map_row_buffer(path) for worker, path in self._paths.items()}
        self.row_buffers = ServerRowBuffers(initial_values, buffers)

    def map_worker(self, worker: WorkerName, path: Buffer) -> None:
        if (new_path := _parse_path(path)) != self._paths[worker]:
            self.row_buffers.replace(worker, self._map_row_buffer(new_path))
            self._paths[worker] = new_path

    def _map_row_buffer(self, path: str) -> RowBuffer:
        return map_row_buffer(path, self._job.index, self._job.servers, self._rows)


class SharedServerTransfer(ServerTransfer):
    """A server's side for dense models, with gradients and values in the workers' shared memory."""

    def __init__(self, initial_values: Vector, part: slice, job: Job, size: int, peers: Peers) -> None:
        super().__init__(initial_values, zero_copy=True)
        self._part, self._size = part, size
        self._gradients: dict[WorkerName, Vector] = {}
        self._values: dict[WorkerName, Vector] = {}
        self._paths: dict[WorkerName, str] = {}
        for worker, path in _segment_paths(job, peers).items():
            self._map(worker, path)
        self._values_are_shared = workers_share_values(job)
        if self._values_are_shared:
            self.values = self._values[CHIEF.encode()]
            self.values[:] = initial_values
            # Replaced so that no reference keeps `initial_values` (a whole shard) in memory.
            self.row_buffers = ServerRowBuffers(self.values)

    def map_worker(self, worker: WorkerName, path: Buffer) -> None:
        if (new_path := _parse_path(path)) != self._paths[worker]:
            self._map(worker, new_path)

    def gradient(self, worker: WorkerName, part: slice, _payload: Buffer) -> Vector:
        return self._gradients[worker][part]

    def reply_payload(self, worker: WorkerName, part: slice) -> Buffer:
        if not self._values_are_shared:
            np.copyto(self._values[worker][part], self.values[part])
        return b""

    def _map(self, worker: WorkerName, path: str) -> None:
        memory = map_peer_vector(path, 2 * self._size)
        self._values[worker], self._gradients[worker] = (
            memory[: self._size][self._part],
            memory[self._size :][self._part],
        )
        self._paths[worker] = path


def _segment_paths(job: Job, peers: Peers) -> dict[WorkerName, str]:
    names = task_names(WORKER, job.workers)
    return {name.encode(): peers[name][SEGMENT] for name in names}


def _parse_path(path: Buffer) -> str:
    """The path of a segment, as text; WireError if it cannot be one."""
    text = bytes(path).decode("ascii", "replace")
    if not is_peer_path(text):
        raise WireError(f"{text[:40]!r} is not the path of a shared memory segment")
    return text
