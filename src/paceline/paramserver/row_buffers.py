"""How rows pass between a worker and a server: in messages, or through a lane of memory that both see.

A lane holds the indices a worker asks for, the values it gets, and the gradients it gives back for them. A push is
for the rows pulled last, so it needs no indices of its own; it brings those of the rows wanted next instead.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.paramserver.transports.shared_memory import Segment, map_peer_vector
from paceline.paramserver.wire import Buffer, WireError, Worker
from paceline.workloads.parameters import Vector

Indices = NDArray[np.int32]
_VECTORS = 3


class RowBuffer:
    """Room for `size` rows, each vector by itself."""

    def __init__(self, room: Vector) -> None:
        indices, self.values, self.gradient = room.reshape(_VECTORS, -1)
        self.indices = indices.view(np.int32)

    @staticmethod
    def room(size: int) -> int:
        return _VECTORS * size


class WorkerRowBuffers:
    """A worker's lanes, one for each server, in memory that the servers can map."""

    def __init__(self, servers: int, size: int, *, shared: bool) -> None:
        self._segment = Segment(servers * RowBuffer.room(size)) if shared else None
        self._lanes = [RowBuffer(part) for part in self._segment.vector.reshape(servers, -1)] if self._segment else []

    @property
    def path(self) -> str | None:
        return self._segment.path if self._segment else None

    def ask(self, server: int, indices: Indices) -> Buffer:
        """What goes with a request for rows."""
        if not self._lanes:
            return indices.tobytes()
        self._lanes[server].indices[: indices.size] = indices
        return b""

    def take(self, server: int, count: int, payload: Buffer) -> Vector:
        """The rows that came with the answer; they are overwritten by the next."""
        if not self._lanes:
            # Copied: what was received cannot be written to, and tensors must be.
            return np.frombuffer(payload, np.float32).copy()
        return self._lanes[server].values[:count]

    def give(self, server: int, gradient: Vector, wanted: Indices) -> Buffer:
        """What goes with a push that also asks for rows."""
        if not self._lanes:
            return gradient.tobytes() + wanted.tobytes()
        self._lanes[server].gradient[: gradient.size] = gradient
        return self.ask(server, wanted)


class ServerRowBuffers:
    """The other end, at one server: out of messages, unless workers' lanes are known."""

    def __init__(self, values: Vector, lanes: dict[Worker, RowBuffer] | None = None) -> None:
        self._values, self._lanes = values, lanes or {}
        self._asked: dict[Worker, Indices] = {}

    def replace(self, worker: Worker, lane: RowBuffer) -> None:
        """The worker comes back with other memory."""
        self._lanes[worker] = lane
        self._asked.pop(worker, None)

    def want(self, worker: Worker, count: int, payload: Buffer) -> None:
        """The worker asks for rows; it gets them with its next answer."""
        lane = self._lanes.get(worker)
        found = lane.indices[:count].copy() if lane else _exactly(payload, count, np.dtype(np.int32))
        if count and not (found.size == count and found.min() >= 0 and found.max() < self._values.size):
            raise WireError("rows beyond this shard")
        self._asked[worker] = found

    def rows(self, worker: Worker) -> Buffer:
        """What goes with the answer to a worker that asked for rows."""
        indices, lane = self._asked[worker], self._lanes.get(worker)
        if lane is None:
            return self._values[indices]
        np.take(self._values, indices, out=lane.values[: indices.size], mode="clip")
        return b""

    def given(self, worker: Worker, wants: int, payload: Buffer) -> tuple[Indices, Vector]:
        """The gradients for the rows that the worker asked for last; notes what it asks for now."""
        if worker not in self._asked:
            raise WireError(f"{worker!r} pushes rows it has not pulled")
        indices, lane = self._asked[worker], self._lanes.get(worker)
        if lane:
            gradient = lane.gradient[: indices.size]
        else:
            cut = 4 * indices.size
            gradient, payload = _exactly(payload[:cut], indices.size, np.dtype(np.float32)), payload[cut:]
        self.want(worker, wants, payload)
        return indices, gradient


def map_row_buffer(path: str, server: int, servers: int, size: int) -> RowBuffer:
    """A worker's lane to this server."""
    return RowBuffer(map_peer_vector(path, servers * RowBuffer.room(size)).reshape(servers, -1)[server])


def _exactly(payload: Buffer, count: int, kind: np.dtype) -> NDArray[Any]:
    if memoryview(payload).nbytes != count * kind.itemsize:
        raise WireError(f"{memoryview(payload).nbytes} bytes for {count} rows")
    return np.frombuffer(payload, kind)
