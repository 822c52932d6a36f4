"""The ratio of the medians of two groups of values, with a 95 % confidence interval.

Method: with three repeats per group, no method without a distribution assumption reaches 95 % confidence. Even if all
values of one group are above all values of the other, chance explains that in one of ten cases, and bootstrapping three
values adds no information. Times and rates vary by factors, so their logarithms are assumed to be normally
distributed, and the interval is Welch's t-interval for the difference of the two means of logarithms, which allows
different variances. It is widened, if necessary, to contain the ratio of the medians, which is what the tables show.

With fewer than three repeats on a side there is no interval: two values say so little about their spread that it would
reach over orders of magnitude, and a real difference of 20 % would be missed in three of four cases.

False positives (equal groups reported as different), measured on 20,000 pairs of each kind for 3, 5 and 10 repeats:
3.5, 4.3 and 4.8 % with log-normal noise of 5 %; 1.8, 1.9 and 2.4 % if one repeat in ten takes 1.5 times as long, since
an outlier widens the interval. A difference of 20 % is detected in 83, 99.9 and 100 % of the cases with that noise, and
in 44, 55 and 81 % with those outliers.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import mean, median, variance

import msgspec
import numpy as np

from paceline.present.thresholds import ENOUGH_REPEATS, WIDEST_INTERVAL

CONFIDENCE = 0.95
_CELLS = 2_000
"""Grid cells of the numerical integral of Student's t density; gives five correct digits."""
_LARGEST_LOG = 700.0
"""The exponential of a larger number overflows."""


class Ratio(msgspec.Struct, frozen=True):
    """A ratio of medians with its confidence interval; without one if either side has too few values."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the confidence interval excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def is_known(self) -> bool:
        """Whether there is a confidence interval."""
        return self.low is not None

    @property
    def is_too_wide(self) -> bool:
        """Whether the confidence interval is so wide that its ends say nothing."""
        return self.low is not None and self.high is not None and self.high > WIDEST_INTERVAL * self.low

    def inverse(self) -> "Ratio":
        if self.low is None or self.high is None:
            return Ratio(1 / self.value)
        return Ratio(1 / self.value, 1 / self.high, 1 / self.low)

    def within(self, tolerance: float) -> bool:
        """Whether the whole confidence interval is within `tolerance` of 1."""
        if self.low is None or self.high is None:
            return False
        return self.low >= 1 / (1 + tolerance) and self.high <= 1 + tolerance


def ratio_of_medians(values: Sequence[float], base: Sequence[float]) -> Ratio | None:
    """Median of `values` over median of `base`; None if either is empty or contains a value that is not above 0."""
    if not values or not base or not all(0 < value < math.inf for value in (*values, *base)):
        return None
    ratio = median(values) / median(base)
    if min(len(values), len(base)) < ENOUGH_REPEATS:
        return Ratio(ratio)
    low, high = _interval([math.log(value) for value in values], [math.log(value) for value in base])
    return Ratio(ratio, min(ratio, low), max(ratio, high))


def _interval(logs: list[float], base: list[float]) -> tuple[float, float]:
    """Welch's interval for the difference of the means, as a ratio."""
    difference = mean(logs) - mean(base)
    error, base_error = variance(logs) / len(logs), variance(base) / len(base)
    if error + base_error == 0:
        # All repeats are equal, as counts of a deterministic run are.
        return math.exp(difference), math.exp(difference)
    freedom = (error + base_error) ** 2 / (error**2 / (len(logs) - 1) + base_error**2 / (len(base) - 1))
    margin = student_quantile(0.5 + CONFIDENCE / 2, freedom) * math.sqrt(error + base_error)
    return math.exp(max(difference - margin, -_LARGEST_LOG)), math.exp(min(difference + margin, _LARGEST_LOG))


@lru_cache(maxsize=1024)
def student_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t for any degrees of freedom, by numerical integration.

    With t = sqrt(freedom) * tan(angle), the density is proportional to cos(angle) ** (freedom - 1).
    """
    cell = math.pi / 2 / _CELLS
    angles = (np.arange(_CELLS) + 0.5) * cell
    below = np.cumsum(np.cos(angles) ** (freedom - 1))
    angle = float(np.interp(2 * probability - 1, below / below[-1], angles + cell / 2))
    return math.sqrt(freedom) * math.tan(angle)
