"""Whether two groups of repeats differ significantly in a metric, as numbers and as a sentence."""

import math
from typing import Literal

import msgspec

from paceline.analyze.metrics import Metric
from paceline.analyze.ratio import Ratio, ratio_of_medians
from paceline.analyze.repeats import Group
from paceline.present import labels
from paceline.present.numbers import percent

_CONFIDENCE_INTERVAL = "95 % CI"


class Difference(msgspec.Struct, frozen=True):
    """The group `name` compared with the group `base` in one metric."""

    metric: Metric
    name: str
    base: str
    ratio: Ratio
    """Of the medians, name / base: below 1 is a smaller value, whether that is better or not."""
    repeats: int
    base_repeats: int
    target: str | None = None
    too_short: tuple[str, ...] = ()
    """Why the speeds cannot be trusted: `ps-async trained for 0.04 s`. Empty for amounts, which need no long runs."""

    @property
    def outcome(self) -> Literal["differs", "same", "unclear", "unknown"]:
        """unclear: not significant; unknown: too few repeats on a side for a confidence interval."""
        if not self.ratio.is_known:
            return "unknown"
        if self.ratio.within(self.metric.same_within):
            return "same"
        return "differs" if self.ratio.is_significant else "unclear"

    @property
    def is_better(self) -> bool:
        """By the medians, whether significant or not."""
        return self.ratio.value < 1 if self.metric.better == "less" else self.ratio.value > 1

    @property
    def is_close(self) -> bool:
        """Whether the medians are the same within the metric's tolerance, whatever the confidence interval."""
        return abs(math.log(self.ratio.value)) <= math.log1p(self.metric.same_within)

    @property
    def gain(self) -> Ratio:
        """Above 1 if `name` is better: how many times faster or smaller."""
        return self.ratio.inverse() if self.metric.better == "less" else self.ratio

    @property
    def sentence(self) -> str:
        """`ps-async is 3.1× faster to loss 0.35 (95 % CI 2.8–3.4, n=5)`."""
        if self.outcome in ("same", "unclear") or (self.outcome == "unknown" and self.is_close):
            return f"{self.name}: {self.phrase}"
        verb = "is" if self.metric.kind != "amount" else _VERBS.get(self.metric.key, "has")
        return f"{self.name} {verb} {self.phrase}"

    @property
    def phrase(self) -> str:
        """The sentence without its subject."""
        match self.outcome:
            case "same":
                text = f"same {self._noun} within {self._tolerance} ({self.sample_size})"
            case "unclear":
                text = f"no significant difference in {self._noun} ({self._interval_around_1}, {self.sample_size})"
            case "differs":
                text = f"{self._claim} ({self._interval}, {self.sample_size})"
            case "unknown":
                claim = f"about the same {self._noun}" if self.is_close else self._claim
                text = f"{claim} ({self.sample_size}: significance unknown)"
        return text + self._warning

    @property
    def lead(self) -> str:
        """How the best group compares with the second: `1.4× faster than allreduce (95 % CI 1.2–1.6, n=5)`."""
        match self.outcome:
            case "same":
                text = f"same as {self.base} within {self._tolerance} ({self.sample_size})"
            case "unclear":
                text = f"not significantly different from {self.base} ({self._interval_around_1}, {self.sample_size})"
            case "differs":
                text = f"{self._claim_over_base} ({self._interval}, {self.sample_size})"
            case "unknown":
                claim = f"about the same as {self.base}" if self.is_close else self._claim_over_base
                text = f"{claim} ({self.sample_size}: significance unknown)"
        return text + self._warning

    @property
    def _warning(self) -> str:
        return f"; too short to trust: {', '.join(self.too_short)}" if self.too_short else ""

    @property
    def _noun(self) -> str:
        return self.metric.noun.format(target=labels.target(self.target))

    @property
    def _stated_ratio(self) -> Ratio:
        """The ratio or its inverse, whichever the sentence states: `3.1× faster`, never `0.32× faster`."""
        return self.ratio.inverse() if self.metric.kind != "amount" and self.ratio.value < 1 else self.ratio

    @property
    def _interval(self) -> str:
        return f"{_CONFIDENCE_INTERVAL} {interval_text(self._stated_ratio)}"

    @property
    def _interval_around_1(self) -> str:
        """`95 % CI 1.09× slower to 1.06× faster`: always how the group compares with the baseline, as in a claim."""
        if self.ratio.is_too_wide:
            return "the repeats vary too much"
        if self.metric.kind == "amount":
            return f"{_CONFIDENCE_INTERVAL} of the {self.metric.label.quantity} ratio {interval_text(self.ratio)}"
        slower, faster = 1 / (self.gain.low or self.gain.value), self.gain.high or self.gain.value
        digits = _digits(self.gain, slower, faster)
        return f"{_CONFIDENCE_INTERVAL} {_rounded(slower, digits)}× slower to {_rounded(faster, digits)}× faster"

    @property
    def _claim(self) -> str:
        times = ratio_text(self._stated_ratio)
        phrase = self.metric.phrase.format(ratio=times, target=labels.target(self.target))
        if self.metric.kind == "amount":
            return phrase
        return f"{times} {'faster' if self.is_better else 'slower'} {phrase}"

    @property
    def _claim_over_base(self) -> str:
        if self.metric.kind == "amount":
            return f"{ratio_text(self._stated_ratio)} that of {self.base}"
        return f"{ratio_text(self._stated_ratio)} {'faster' if self.is_better else 'slower'} than {self.base}"

    @property
    def _tolerance(self) -> str:
        return percent(self.metric.same_within, digits=0 if self.metric.same_within >= 0.01 else 1)

    @property
    def sample_size(self) -> str:
        """`n=3`, or `n=2 and 3` if the groups have different numbers of repeats."""
        counts = dict.fromkeys((self.repeats, self.base_repeats))
        return f"n={' and '.join(map(str, counts))}"


_VERBS = {
    "memory_mb": "uses",
    "final_loss": "ends at",
    "final_accuracy": "ends at",
    "updates_to_target": "needs",
    "examples_to_target": "needs",
}


def difference(metric: Metric, group: Group, base: Group, name: str, base_name: str) -> Difference | None:
    """None if one of the groups has no value of the metric, or they reached different targets."""
    if metric.to_target and group.target != base.target:
        return None
    values, base_values = metric.values(group), metric.values(base)
    ratio = ratio_of_medians(values, base_values)
    if ratio is None:
        return None
    short = [
        f"{one_name} {why}" for one, one_name in ((group, name), (base, base_name)) if (why := one.too_short)
    ] if metric.kind != "amount" else []  # fmt: skip
    return Difference(metric, name, base_name, ratio, len(values), len(base_values), group.target, tuple(short))


def ratio_text(ratio: Ratio) -> str:
    """`3.1×`."""
    return f"{_rounded(ratio.value, _digits(ratio, ratio.value))}×"


def interval_text(ratio: Ratio) -> str:
    """`2.8–3.4`: the confidence interval."""
    if ratio.low is None or ratio.high is None:
        return "unknown"
    if ratio.is_too_wide:
        return f"from {_rounded(ratio.low, _digits(ratio, ratio.low))} on"
    digits = _digits(ratio, ratio.value, ratio.low, ratio.high)
    return f"{_rounded(ratio.low, digits)}–{_rounded(ratio.high, digits)}"


def _rounded(value: float, digits: int) -> str:
    """At least two significant digits; the larger the value, the fewer after the decimal point."""
    return f"{value:,.{digits if value < 3 else 1 if value < 99.95 else 0}f}"


def _digits(ratio: Ratio, *shown: float) -> int:
    """Digits after the decimal point with which none of the `shown` values looks like 1; 1 if all are above 2."""
    if (ratio.low or ratio.value) >= 2:
        return 1
    nearest = min(abs(value - 1) or 1 for value in shown)
    return 2 if nearest >= 0.005 else 3 if nearest >= 0.0005 else 4
