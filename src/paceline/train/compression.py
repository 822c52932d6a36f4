"""Compresses vectors of gradients and of changes of parameters before they are sent. It imports no framework.

A compressor is lossy: what it leaves out is not lost, but added to the next vector (error feedback). Its payload is an
array of bytes whose size depends only on the length of the vector, so that receivers know it in advance.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from paceline.spec.compression import Compression
from paceline.train.context import Job
from paceline.workloads.parameters import ParameterShape, Vector

Payload = npt.NDArray[np.uint8]
INT8_BLOCK = 256
"""Values that share one scale."""
_LARGEST_INT8 = 127


class Compressor(Protocol):
    size: int
    """How many values a vector has."""
    payload_bytes: int

    def encode(self, vector: Vector) -> Payload: ...

    def decode(self, payload: Any) -> Vector:
        """The vector that a payload of `payload_bytes` bytes stands for."""
        ...


class HalfPrecision:
    """fp16: two bytes per value."""

    def __init__(self, size: int) -> None:
        self.size, self.payload_bytes = size, 2 * size

    def encode(self, vector: Vector) -> Payload:
        with np.errstate(over="ignore", invalid="ignore"):  # A loss that diverges is reported as such.
            return vector.astype(np.float16).view(np.uint8)

    def decode(self, payload: Any) -> Vector:
        return np.frombuffer(payload, np.float16).astype(np.float32)


class Int8:
    """One byte per value, with a scale for each block of values: its largest magnitude becomes 127."""

    def __init__(self, size: int) -> None:
        self.size, self._blocks = size, -(-size // INT8_BLOCK)
        self.payload_bytes = 4 * self._blocks + size

    def encode(self, vector: Vector) -> Payload:
        padded = np.zeros((self._blocks, INT8_BLOCK), np.float32)
        padded.reshape(-1)[: self.size] = vector
        scales = np.abs(padded).max(1) / np.float32(_LARGEST_INT8)
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(scales > 0, 1 / scales, 0).astype(np.float32)
            quantized = np.rint(padded * factors[:, None]).astype(np.int8)
        return np.concatenate([scales.view(np.uint8), quantized.reshape(-1)[: self.size].view(np.uint8)])

    def decode(self, payload: Any) -> Vector:
        data = np.frombuffer(payload, np.uint8)
        scales = data[: 4 * self._blocks].view(np.float32)
        values = data[4 * self._blocks :].view(np.int8).astype(np.float32)
        values *= np.repeat(scales, INT8_BLOCK)[: self.size]
        return values


class TopK:
    """The indices and values of the entries with the largest magnitudes; the others are zero."""

    def __init__(self, size: int, ratio: float) -> None:
        self.size, self._count = size, max(1, round(ratio * size))
        self.payload_bytes = 8 * self._count

    def encode(self, vector: Vector) -> Payload:
        split = self.size - self._count
        indices = np.argpartition(np.abs(vector), split)[split:].astype(np.uint32)
        return np.concatenate([indices.view(np.uint8), np.ascontiguousarray(vector[indices]).view(np.uint8)])

    def decode(self, payload: Any) -> Vector:
        data = np.frombuffer(payload, np.uint8)
        vector = np.zeros(self.size, np.float32)
        indices = data[: 4 * self._count].view(np.uint32)
        if indices.max() >= self.size:
            raise ValueError(f"index {indices.max()} is beyond the {self.size} values")
        vector[indices] = data[4 * self._count :].view(np.float32)
        return vector


class PowerSgd:
    """Each matrix as a product of two thin ones, found by one step of subspace iteration (Vogels et al. 2019).

    The step starts from the factor of the vector before. Parameters that are no matrices are sent as they are.
    """

    def __init__(self, size: int, rank: int, matrices: Sequence[tuple[int, int, int]]) -> None:
        """`matrices` are the (start, rows, columns) of the parts of the vector that are sent as products."""
        self.size, self._rank, self._matrices = size, rank, matrices
        is_matrix = np.zeros(size, bool)
        for start, rows, columns in matrices:
            is_matrix[start : start + rows * columns] = True
        self._others = np.flatnonzero(~is_matrix)
        random = np.random.default_rng(1)  # Every task draws the same.
        self._right = [random.normal(size=(columns, rank)).astype(np.float32) for _, _, columns in matrices]
        values = self._others.size + sum(rank * (rows + columns) for _, rows, columns in matrices)
        self.payload_bytes = 4 * int(values)

    def encode(self, vector: Vector) -> Payload:
        parts = [vector[self._others]]
        for number, (start, rows, columns) in enumerate(self._matrices):
            matrix = vector[start : start + rows * columns].reshape(rows, columns)
            left, _ = np.linalg.qr(matrix @ self._right[number])
            right = matrix.T @ left
            if right.any():  # A factor of zeros would stay zero for ever.
                self._right[number] = right
            parts += (left.reshape(-1), right.reshape(-1))
        return np.concatenate(parts).astype(np.float32, copy=False).view(np.uint8)

    def decode(self, payload: Any) -> Vector:
        data, vector = np.frombuffer(payload, np.float32), np.empty(self.size, np.float32)
        vector[self._others], position = data[: self._others.size], self._others.size
        for start, rows, columns in self._matrices:
            middle, end = position + rows * self._rank, position + (rows + columns) * self._rank
            left = data[position:middle].reshape(rows, self._rank)
            right = data[middle:end].reshape(columns, self._rank)
            np.matmul(left, right.T, out=vector[start : start + rows * columns].reshape(rows, columns))
            position = end
        return vector


class ErrorFeedback:
    """Compresses a sequence of vectors; what is left out of one is added to the next."""

    def __init__(self, compressor: Compressor) -> None:
        self.compressor = compressor
        self._residual = np.zeros(compressor.size, np.float32)

    def encode(self, vector: Vector) -> Payload:
        self._residual += vector
        payload = self.compressor.encode(self._residual)
        self._residual -= self.compressor.decode(payload)
        return payload


def compression_of(job: Job) -> Compression | None:
    """How values are compressed in this run; None if they are not."""
    text = job.strategy_options.get("compress")
    return None if text is None else Compression.parse(str(text))


def make_compressor(compression: Compression, shapes: Sequence[ParameterShape], part: slice) -> Compressor:
    """The compressor of a part of the vector of all parameters."""
    size = part.stop - part.start
    match compression.kind:
        case "fp16":
            return HalfPrecision(size)
        case "int8":
            return Int8(size)
        case "topk":
            return TopK(size, compression.ratio)
        case "powersgd":
            return PowerSgd(size, compression.rank, list(_matrices_in(shapes, part, compression.rank)))


def _matrices_in(shapes: Sequence[ParameterShape], part: slice, rank: int) -> Iterator[tuple[int, int, int]]:
    """The (start, rows, columns) of the matrices of a part, counted from its start: whole rows of parameters with two
    or more dimensions, if two factors of this rank are smaller than the matrix."""
    start = 0
    for shape in shapes:
        rows, columns = _as_matrix(shape.shape)
        if rows > 1 and columns > 1:
            first = -(-max(0, part.start - start) // columns)
            last = min(rows, max(0, part.stop - start) // columns)
            count = last - first
            if count >= rank and rank * (count + columns) < count * columns:
                yield start + first * columns - part.start, count, columns
        start += shape.size


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the matrix with the same values in the same order that is closest to a square."""
    if len(shape) < 2:
        return 1, prod(shape)
    splits = [(prod(shape[:at]), prod(shape[at:])) for at in range(1, len(shape))]
    return min(splits, key=sum)
