"""Passes the rows of a sparse model between a worker and a server: in messages, or through shared memory.

A row buffer in shared memory has three vectors: the indices of the rows that the worker requests, their values, and the
gradients that the worker computes for them. A push always belongs to the rows that were requested last, so it needs no
indices for its gradients. It carries the indices of the rows that the worker needs next instead.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.paramserver.transports.shared_memory import Segment, map_peer_vector
from paceline.paramserver.wire import Buffer, WireError, WorkerName
from paceline.workloads.parameters import Vector

Indices = NDArray[np.int32]
_VECTORS = 3


class RowBuffer:
    """Views of one vector of shared memory: `indices`, `values` and `gradient`, each with the same capacity."""

    def __init__(self, memory: Vector) -> None:
        indices, self.values, self.gradient = memory.reshape(_VECTORS, -1)
        self.indices = indices.view(np.int32)

    @staticmethod
    def memory_size(rows: int) -> int:
        """How many float32 values a buffer for so many rows needs."""
        return _VECTORS * rows


class WorkerRowBuffers:
    """A worker's side: one row buffer for each server, in memory that the servers can map, or messages."""

    def __init__(self, servers: int, rows: int, *, shared: bool) -> None:
        self._segment = Segment(servers * RowBuffer.memory_size(rows)) if shared else None
        self._buffers = [RowBuffer(part) for part in self._segment.vector.reshape(servers, -1)] if self._segment else []

    @property
    def path(self) -> str | None:
        """The path of the shared memory; None if rows are sent in messages."""
        return self._segment.path if self._segment else None

    def pull_payload(self, server: int, indices: Indices) -> Buffer:
        """The payload of a request for these rows."""
        if not self._buffers:
            return indices.tobytes()
        self._buffers[server].indices[: indices.size] = indices
        return b""

    def push_payload(self, server: int, gradient: Vector, next_indices: Indices) -> Buffer:
        """The payload of a push that also requests the rows at `next_indices`."""
        if not self._buffers:
            return gradient.tobytes() + next_indices.tobytes()
        self._buffers[server].gradient[: gradient.size] = gradient
        return self.pull_payload(server, next_indices)

    def reply_rows(self, server: int, count: int, payload: Buffer) -> Vector:
        """The rows of a reply; the next reply may overwrite them."""
        if not self._buffers:
            # Copied because the received bytes are read-only and tensors need writable memory.
            return np.frombuffer(payload, np.float32).copy()
        return self._buffers[server].values[:count]


class ServerRowBuffers:
    """A server's side: the row buffers of those workers that share memory; rows of the others come in messages."""

    def __init__(self, values: Vector, buffers: dict[WorkerName, RowBuffer] | None = None) -> None:
        self._values, self._buffers = values, buffers or {}
        self._requested: dict[WorkerName, Indices] = {}
        """The rows that each worker requested last."""

    def replace(self, worker: WorkerName, buffer: RowBuffer) -> None:
        """Use another buffer: the worker was restarted and has new memory."""
        self._buffers[worker] = buffer
        self._requested.pop(worker, None)

    def request_rows(self, worker: WorkerName, count: int, payload: Buffer) -> None:
        """Store which rows the next reply to this worker has to carry; WireError if the indices are invalid."""
        buffer = self._buffers.get(worker)
        # Copied: the worker overwrites them with its next request, and could change them after this check.
        indices = buffer.indices[:count].copy() if buffer else _decode(payload, count, np.dtype(np.int32))
        if count and not (indices.size == count and indices.min() >= 0 and indices.max() < self._values.size):
            raise WireError(f"row indices are outside of this shard of {self._values.size} values")
        self._requested[worker] = indices

    def reply_payload(self, worker: WorkerName) -> Buffer:
        """The payload of a reply to a worker that has requested rows."""
        indices, buffer = self._requested[worker], self._buffers.get(worker)
        if buffer is None:
            return self._values[indices]
        np.take(self._values, indices, out=buffer.values[: indices.size], mode="clip")
        return b""

    def take_gradient(self, worker: WorkerName, next_count: int, payload: Buffer) -> tuple[Indices, Vector]:
        """The rows that the worker requested last with their gradients; stores the next rows that it requests."""
        if worker not in self._requested:
            raise WireError(f"{worker!r} pushed rows that it has not pulled")
        indices, buffer = self._requested[worker], self._buffers.get(worker)
        if buffer:
            gradient = buffer.gradient[: indices.size]
        else:
            gradient_bytes = 4 * indices.size
            gradient = _decode(payload[:gradient_bytes], indices.size, np.dtype(np.float32))
            payload = payload[gradient_bytes:]
        self.request_rows(worker, next_count, payload)
        return indices, gradient


def map_row_buffer(path: str, server: int, servers: int, rows: int) -> RowBuffer:
    """A worker's row buffer for this server, mapped from the worker's shared memory."""
    return RowBuffer(map_peer_vector(path, servers * RowBuffer.memory_size(rows)).reshape(servers, -1)[server])


def _decode(payload: Buffer, count: int, dtype: np.dtype) -> NDArray[Any]:
    if memoryview(payload).nbytes != count * dtype.itemsize:
        raise WireError(f"the payload has {memoryview(payload).nbytes} bytes for {count} rows")
    return np.frombuffer(payload, dtype)
