"""Synthetic sparse binary classification data like that of Criteo's display advertising challenge.

An example has 39 fields with one feature each: 13 numeric fields, binned into few features, and 26 categorical fields
of very different size. Within a field a few features are very frequent and most are rare (Zipf's law). Every feature
has a hidden weight, and the label is drawn with the logistic function of the sum of the weights as its probability. An
example is a function of its number, so nothing is stored.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.data.batches import Batch, Share
from paceline.data.dataset import PreparedData, check_examples
from paceline.data.hashing import as_uint32, make_key, random_bits

FEATURES = 33_762_578
NONZEROS = 39
TRAINING, TEST = 45_840_617, 20_000

# The number of features of each field; the categorical ones have as many as in the challenge.
_NUMERIC = (60, 110, 90, 45, 250, 170, 75, 55, 130, 12, 35, 25, 65)
_CATEGORICAL = (
    *(1_460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5_683, 8_351_593, 3_194),
    *(27, 14_992, 5_461_306, 10, 5_652, 2_173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572),
)
_EXCESS = sum(_NUMERIC) + sum(_CATEGORICAL) - FEATURES
FIELDS = (*_NUMERIC, *(size - _EXCESS if size == max(_CATEGORICAL) else size for size in _CATEGORICAL))

_SEED = 1
_FIRST_TEST_EXAMPLE = 2**40
"""Far beyond the number of any training example."""
_CLICK_RATE = 0.25
"""The share of examples with label 1."""
_MAX_WEIGHT = 0.65
"""The largest weight of the most frequent features; rare ones, which occur too seldom to be learned, weigh less."""
_CALIBRATION_EXAMPLES = 4_096
_TEST_BATCH = 2_000

Indices = NDArray[np.int64]
Labels = NDArray[np.int64]


def ensure() -> PreparedData:
    return PreparedData(paths=(), source="synthetic clicks of Criteo's shape", synthetic=True)


def find_prepared() -> PreparedData:
    return ensure()


def load(examples: int | None = None, prepared: PreparedData | None = None) -> "SparseExamples":
    return SparseExamples(examples=check_examples(examples, TRAINING))


class SparseExamples:
    """Batches of (indices, values), all values 1, and labels 0 or 1."""

    def __init__(
        self, fields: Sequence[int] = FIELDS, examples: int = TRAINING, test: int = TEST, seed: int = _SEED
    ) -> None:
        """`fields` is the number of features of each field; the indices of a field follow those of the field before."""
        self._fields, self._examples, self._test, self._seed = tuple(fields), examples, test, seed

    def stream(self, share: Share) -> "SparseStream":
        return SparseStream(self._clicks, self._examples, share)

    def test(self) -> list[Batch]:
        numbers = _FIRST_TEST_EXAMPLE + np.arange(self._test, dtype=np.int64)
        starts = range(0, self._test, _TEST_BATCH)
        return [_batch(self._clicks, numbers[start : start + _TEST_BATCH]) for start in starts]

    @cached_property
    def _clicks(self) -> "Clicks":
        return Clicks(self._fields, self._seed)


class SparseStream:
    """Consecutive examples, starting at one that depends on the seed: permuting 45 million would take seconds."""

    def __init__(self, clicks: "Clicks", examples: int, share: Share) -> None:
        self._clicks, self._examples, self._share = clicks, examples, share
        self._first = make_key(share.seed) % examples + share.index * share.batch
        self._offsets = np.arange(share.batch, dtype=np.int64)
        self._batch = _batch(clicks, self._offsets)

    def at(self, step: int) -> Batch:
        share = self._share
        start = (self._first + step * share.workers * share.batch) % self._examples
        self._clicks.fill((self._offsets + start) % self._examples, self._batch.inputs[0], self._batch.target)
        return self._batch


class Clicks:
    """Computes the features and the label of an example from its number."""

    def __init__(self, fields: Sequence[int], seed: int) -> None:
        self._sizes = np.array(fields, np.int64)
        self._first = np.cumsum(self._sizes) - self._sizes
        self._per_draw = np.array([_octaves(size) for size in fields]) / 2**32
        self._stride = np.array([_coprime(size) for size in fields], np.int64)
        self._words = np.arange(len(fields) // 2 + 1)  # A random word serves two fields; half a word is for the label.
        self._draws_key, self._weights_key = make_key(seed, 0), make_key(seed, 1)
        max_octave = int(max(_octaves(size) for size in fields))
        # Frequent features have larger weights; otherwise a few hundred thousand examples would not be enough to learn.
        self._weight_scale = _MAX_WEIGHT / (1 + np.arange(max_octave + 1) / 4) / 2**63
        self._bias = 0.0
        self._bias = self._calibrate()

    @property
    def fields(self) -> int:
        return len(self._sizes)

    def fill(self, examples: NDArray[np.int64], indices: Indices, labels: Labels) -> None:
        """Write the feature indices and labels of these examples."""
        scores, uniform = self._scores(examples, indices)
        np.less(uniform, 1 / (1 + np.exp(-scores)), out=labels, casting="unsafe")

    def _scores(self, examples: NDArray[np.int64], indices: Indices) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Write the indices; returns the log odds of a click, and a uniform number from which the label is drawn."""
        words = random_bits(self._draws_key, examples[:, None] * len(self._words) + self._words)
        draws = as_uint32(words)
        octaves = draws[:, : self.fields] * self._per_draw
        # A rank with Zipf's law is 2 to the power of a uniform number. The bits of a float are nearly its logarithm, so
        # the power is computed by writing exponent and mantissa: cheaper than exp(), and the same on every machine.
        powers = ((octaves + 1023.0) * 2.0**52).astype(np.int64).view(np.float64)
        ranks = powers.astype(np.int64)
        ranks -= 1
        # Spread the frequent features over the field; otherwise they would all be on one parameter server.
        ranks *= self._stride
        ranks %= self._sizes
        np.add(ranks, self._first, out=indices)
        weights = random_bits(self._weights_key, indices).view(np.int64) * self._weight_scale[octaves.astype(np.intp)]
        return weights.sum(axis=1) + self._bias, draws[:, -1] / 2**32

    def _calibrate(self) -> float:
        """The bias at which the share of clicks is _CLICK_RATE, found by bisection."""
        indices = np.empty((_CALIBRATION_EXAMPLES, self.fields), np.int64)
        scores, _ = self._scores(np.arange(_CALIBRATION_EXAMPLES), indices)
        low, high = -50.0, 50.0
        for _ in range(40):
            middle = (low + high) / 2
            clicks = (1 / (1 + np.exp(-scores - middle))).mean()
            low, high = (middle, high) if clicks < _CLICK_RATE else (low, middle)
        return low


def _batch(clicks: Clicks, examples: NDArray[np.int64]) -> Batch:
    shape = len(examples), clicks.fields
    batch = Batch((np.empty(shape, np.int64), np.ones(shape, np.float32)), np.empty(len(examples), np.int64))
    clicks.fill(examples, batch.inputs[0], batch.target)
    return batch


def _octaves(size: int) -> float:
    """log2(size + 1), interpolated linearly between powers of two: the inverse of the power in `_scores`."""
    whole = (size + 1).bit_length() - 1
    return whole + (size + 1) / (1 << whole) - 1


def _coprime(size: int) -> int:
    """A number coprime to `size`: steps of it visit every feature of a field once, with neighbours far apart."""
    stride = max(1, round(size * 0.618))
    while math.gcd(stride, size) > 1:
        stride += 1
    return stride
