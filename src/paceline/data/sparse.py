"""Sparse binary classification like Criteo's display advertising challenge, made up as it goes.

39 fields, each with one feature present: 13 as small as binned numbers, 26 categorical of very unequal size. Within
a field a few features are very frequent and most are rare (Zipf's law). Every feature has a hidden weight, and the
label is drawn from the logistic of their sum. An example is a function of its number: nothing is stored.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.data.batches import Batch, Share
from paceline.data.dataset import PreparedData, check_examples
from paceline.data.hashing import bits, halves, key

FEATURES = 33_762_578
NONZEROS = 39
TRAINING, TEST = 45_840_617, 20_000

_NUMERIC = (60, 110, 90, 45, 250, 170, 75, 55, 130, 12, 35, 25, 65)
_CATEGORICAL = (
    *(1_460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5_683, 8_351_593, 3_194),
    *(27, 14_992, 5_461_306, 10, 5_652, 2_173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572),
)  # as many as the challenge's own fields have values
_TOO_MANY = sum(_NUMERIC) + sum(_CATEGORICAL) - FEATURES
FIELDS = (*_NUMERIC, *(size - _TOO_MANY if size == max(_CATEGORICAL) else size for size in _CATEGORICAL))

_SEED = 1
_TEST_FROM = 2**40  # far beyond the number of any training example
_CLICKS = 0.25  # of all examples
_STRENGTH = 0.65  # of the most frequent features' weights; rarer ones matter less, and are seen too seldom to learn
_CALIBRATION = 4_096
_PIECE = 2_000

Indices = NDArray[np.int64]
Labels = NDArray[np.int64]


def ensure() -> PreparedData:
    return PreparedData(paths=(), source="synthetic clicks of Criteo's shape", synthetic=True)


def find_ready() -> PreparedData:
    return ensure()


def load(examples: int | None = None, ready: PreparedData | None = None) -> "SparseExamples":
    return SparseExamples(examples=check_examples(examples, TRAINING))


class SparseExamples:
    """Batches of (indices, values), all values 1, and labels 0 or 1."""

    def __init__(
        self, fields: Sequence[int] = FIELDS, examples: int = TRAINING, test: int = TEST, seed: int = _SEED
    ) -> None:
        """`fields` says how many features each field has; their indices follow each other."""
        self._fields, self._examples, self._test, self._seed = tuple(fields), examples, test, seed

    def stream(self, share: Share) -> "SparseStream":
        return SparseStream(self._clicks, self._examples, share)

    def test(self) -> list[Batch]:
        numbers = _TEST_FROM + np.arange(self._test, dtype=np.int64)
        return [_batch(self._clicks, numbers[start : start + _PIECE]) for start in range(0, self._test, _PIECE)]

    @cached_property
    def _clicks(self) -> "Clicks":
        return Clicks(self._fields, self._seed)


class SparseStream:
    """Consecutive examples from a start that the seed decides: a permutation of 45 million would cost seconds."""

    def __init__(self, clicks: "Clicks", examples: int, share: Share) -> None:
        self._clicks, self._examples, self._share = clicks, examples, share
        self._first = key(share.seed) % examples + share.index * share.batch
        self._places = np.arange(share.batch, dtype=np.int64)
        self._batch = _batch(clicks, self._places)

    def at(self, step: int) -> Batch:
        share = self._share
        start = (self._first + step * share.workers * share.batch) % self._examples
        self._clicks.fill((self._places + start) % self._examples, self._batch.inputs[0], self._batch.target)
        return self._batch


class Clicks:
    """What example of which number holds."""

    def __init__(self, fields: Sequence[int], seed: int) -> None:
        self._sizes = np.array(fields, np.int64)
        self._first = np.cumsum(self._sizes) - self._sizes
        self._per_draw = np.array([_octaves(size) for size in fields]) / 2**32
        self._stride = np.array([_coprime(size) for size in fields], np.int64)
        self._words = np.arange(len(fields) // 2 + 1)  # two fields in each, and one half for the label
        self._draws_key, self._weights_key = key(seed, 0), key(seed, 1)
        most = int(max(_octaves(size) for size in fields))
        # Frequent features must decide, or nothing could be learned from a few hundred thousand examples.
        self._strength = _STRENGTH / (1 + np.arange(most + 1) / 4) / 2**63
        self._bias = 0.0
        self._bias = self._calibrate()

    @property
    def fields(self) -> int:
        return len(self._sizes)

    def fill(self, examples: NDArray[np.int64], indices: Indices, labels: Labels) -> None:
        """Writes what these examples hold."""
        scores, chance = self._scores(examples, indices)
        np.less(chance, 1 / (1 + np.exp(-scores)), out=labels, casting="unsafe")

    def _scores(self, examples: NDArray[np.int64], indices: Indices) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Writes the indices; returns the log odds of a click, and a uniform number to draw the label with."""
        words = bits(self._draws_key, examples[:, None] * len(self._words) + self._words)
        draws = halves(words)
        octaves = draws[:, : self.fields] * self._per_draw
        # Zipf's law is a power of a uniform number. A float's bits are its logarithm, nearly, so here they are put
        # together from it: cheaper than exp(), and the same on every machine.
        powers = ((octaves + 1023.0) * 2.0**52).astype(np.int64).view(np.float64)
        ranks = powers.astype(np.int64)
        ranks -= 1
        ranks *= self._stride  # the frequent ones of a field must not all lie at its beginning, on one server
        ranks %= self._sizes
        np.add(ranks, self._first, out=indices)
        weights = bits(self._weights_key, indices).view(np.int64) * self._strength[octaves.astype(np.intp)]
        return weights.sum(axis=1) + self._bias, draws[:, -1] / 2**32

    def _calibrate(self) -> float:
        """The bias at which a quarter of the examples are clicks."""
        scores, _ = self._scores(np.arange(_CALIBRATION), np.empty((_CALIBRATION, self.fields), np.int64))
        low, high = -50.0, 50.0
        for _ in range(40):
            middle = (low + high) / 2
            clicks = (1 / (1 + np.exp(-scores - middle))).mean()
            low, high = (middle, high) if clicks < _CLICKS else (low, middle)
        return low


def _batch(clicks: Clicks, examples: NDArray[np.int64]) -> Batch:
    shape = len(examples), clicks.fields
    batch = Batch((np.empty(shape, np.int64), np.ones(shape, np.float32)), np.empty(len(examples), np.int64))
    clicks.fill(examples, batch.inputs[0], batch.target)
    return batch


def _octaves(size: int) -> float:
    """Where in octaves size + 1 lies, linear between powers of two: the inverse of what `_scores` does with bits."""
    whole = (size + 1).bit_length() - 1
    return whole + (size + 1) / (1 << whole) - 1


def _coprime(size: int) -> int:
    """A stride that visits every feature of a field once, far apart."""
    stride = max(1, round(size * 0.618))
    while math.gcd(stride, size) > 1:
        stride += 1
    return stride
