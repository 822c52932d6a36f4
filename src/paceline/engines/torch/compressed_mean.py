"""The mean of a vector over all workers, compressed on the way, through gloo.

Every worker computes the same bits, because all decode the same payloads in the same order.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist

from paceline.spec.compression import Compression
from paceline.train.compression import INT8_BLOCK, ErrorFeedback, Payload, make_compressor
from paceline.train.context import Job
from paceline.train.strategy import Exchanged
from paceline.workloads.parameters import ParameterShape, Vector


class CompressedMean(Protocol):
    exchanged: Exchanged

    def take(self, vector: Vector) -> None:
        """Replace the vector by about the mean of the vectors of all workers; they all call it."""


class GatheredMean:
    """Every worker sends its compressed vector to all others: for payloads that cannot be added up (topk, powersgd)."""

    def __init__(self, job: Job, shapes: Sequence[ParameterShape], compression: Compression) -> None:
        size = sum(shape.size for shape in shapes)
        self._workers, self.exchanged = job.workers, Exchanged()
        self._feedback = ErrorFeedback(make_compressor(compression, shapes, slice(0, size)))

    def take(self, vector: Vector) -> None:
        payloads = _gather(self._feedback.encode(vector), self._workers, self.exchanged)
        vector[:] = 0
        for payload in payloads:
            vector += self._feedback.compressor.decode(payload)
        vector /= self._workers


class ScatteredMean:
    """Every worker adds up one part of all vectors, and sends the sum to all others: for payloads with a few bytes for
    each value (fp16, int8). This is a ring all-reduce with compressed messages: both the parts and the sums are
    compressed, each with its own error feedback."""

    def __init__(self, job: Job, shapes: Sequence[ParameterShape], compression: Compression) -> None:
        self._size, self._workers, self._rank = sum(shape.size for shape in shapes), job.workers, job.index
        self._part = -(-self._size // (job.workers * INT8_BLOCK)) * INT8_BLOCK
        self._padded = np.zeros((job.workers, self._part), np.float32)
        self._parts = [ErrorFeedback(make_compressor(compression, (), slice(0, self._part))) for _ in self._padded]
        self._sum = ErrorFeedback(make_compressor(compression, (), slice(0, self._part)))
        self.exchanged = Exchanged()

    def take(self, vector: Vector) -> None:
        self._padded.reshape(-1)[: self._size] = vector
        pairs = zip(self._parts, self._padded, strict=True)
        sent = torch.from_numpy(np.stack([feedback.encode(part) for feedback, part in pairs]))
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        _count(self.exchanged, sent[0].nbytes, self._workers)
        decode = self._sum.compressor.decode
        mean = np.zeros(self._part, np.float32)
        for payload in received.numpy():
            mean += decode(payload)
        mean /= self._workers
        means = _gather(self._sum.encode(mean), self._workers, self.exchanged)
        vector[:] = np.concatenate([decode(payload) for payload in means])[: self._size]


def compressed_mean(job: Job, shapes: Sequence[ParameterShape], compression: Compression) -> CompressedMean:
    """The exchange that suits the compression; the process group must exist when it is used."""
    kind = ScatteredMean if compression.kind in ("fp16", "int8") else GatheredMean
    return kind(job, shapes, compression)


def _gather(payload: Payload, workers: int, exchanged: Exchanged) -> Sequence[Payload]:
    """The payloads of all workers, in the order of ranks."""
    received = torch.empty((workers, payload.size), dtype=torch.uint8)
    dist.all_gather(list(received), torch.from_numpy(payload))
    _count(exchanged, payload.nbytes, workers)
    return list(received.numpy())


def _count(exchanged: Exchanged, size: int, workers: int) -> None:
    exchanged.sent += size * (workers - 1)
    exchanged.received += size * (workers - 1)
