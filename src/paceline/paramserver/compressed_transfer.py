"""Passes compressed gradients and compressed changes of the values between workers and servers, in messages.

A push carries the compressed gradient. Its reply carries the compressed difference between the values of the server and
those that the worker has. The server knows the latter, because it makes the same additions as the worker; so what one
reply leaves out is part of the next. A pull carries the values as they are.
"""

from collections.abc import Sequence

import numpy as np

from paceline.paramserver.transfer import ServerTransfer, WorkerTransfer
from paceline.paramserver.wire import Buffer, WireError, WorkerName
from paceline.spec.compression import Compression
from paceline.train.compression import Compressor, ErrorFeedback, make_compressor
from paceline.train.context import Job
from paceline.workloads.parameters import ParameterShape, Vector


class CompressedWorkerTransfer(WorkerTransfer):
    """A worker's side."""

    def __init__(self, job: Job, shapes: Sequence[ParameterShape], compression: Compression) -> None:
        super().__init__(job, sum(shape.size for shape in shapes))
        self._shapes, self._compression = shapes, compression
        self._pushed: dict[int, ErrorFeedback] = {}
        """For each bucket, by the index of its first value."""

    def push_payload(self, part: slice) -> Buffer:
        payload = self._feedback(part).encode(self.gradient[part])
        self.exchanged.sent += payload.nbytes
        return payload

    def store_reply(self, part: slice, payload: Buffer) -> None:
        if not len(payload):
            return
        self.exchanged.received += memoryview(payload).nbytes
        # Any payload of the right size can be decoded: a compressor for gradients decodes changes of values as well.
        self.values[part] += self._feedback(part).compressor.decode(payload)

    def _feedback(self, part: slice) -> ErrorFeedback:
        if part.start not in self._pushed:
            self._pushed[part.start] = ErrorFeedback(make_compressor(self._compression, self._shapes, part))
        return self._pushed[part.start]


class CompressedServerTransfer(ServerTransfer):
    """A server's side. `first` is the index in the model of the shard's first value."""

    def __init__(
        self, initial_values: Vector, first: int, shapes: Sequence[ParameterShape], compression: Compression
    ) -> None:
        super().__init__(initial_values, zero_copy=False)
        self._first, self._shapes, self._compression = first, shapes, compression
        self._worker_values: dict[WorkerName, Vector] = {}
        """The values that each worker has."""
        self._compressors: dict[tuple[WorkerName, int], Compressor] = {}

    def gradient(self, worker: WorkerName, part: slice, payload: Buffer) -> Vector:
        compressor = self._compressor(worker, part)
        if (size := memoryview(payload).nbytes) != compressor.payload_bytes:
            raise WireError(f"the payload has {size} bytes, the compressed bucket has {compressor.payload_bytes}")
        try:
            return compressor.decode(payload)
        except ValueError as error:
            raise WireError(str(error)) from None

    def reply_payload(self, worker: WorkerName, part: slice) -> Buffer:
        known, compressor = self._values_of(worker)[part], self._compressor(worker, part)
        payload = compressor.encode(self.values[part] - known)
        known += compressor.decode(payload)
        return payload

    def pull_payload(self, worker: WorkerName, part: slice) -> Buffer:
        self._values_of(worker)[part] = self.values[part]
        return self.values[part].tobytes()

    def _values_of(self, worker: WorkerName) -> Vector:
        if worker not in self._worker_values:
            self._worker_values[worker] = np.zeros_like(self.values)
        return self._worker_values[worker]

    def _compressor(self, worker: WorkerName, part: slice) -> Compressor:
        key = worker, part.start
        if key not in self._compressors:
            in_model = slice(part.start + self._first, part.stop + self._first)
            self._compressors[key] = make_compressor(self._compression, self._shapes, in_model)
        return self._compressors[key]
