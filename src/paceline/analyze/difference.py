"""Whether two groups of repeats really differ in a figure, in numbers and in a plain sentence."""

import math
from typing import Literal

import msgspec

from paceline.analyze.metrics import Metric, target_words
from paceline.analyze.ratio import Ratio, ratio_of_medians
from paceline.analyze.repeats import Group


class Difference(msgspec.Struct, frozen=True):
    """`name` against `base` in one figure."""

    figure: Metric
    name: str
    base: str
    ratio: Ratio
    """Of the figure's medians, name / base: below 1 is less, whichever is better."""
    repeats: int
    base_repeats: int
    target: str | None = None

    @property
    def outcome(self) -> Literal["differs", "same", "unclear", "unknown"]:
        """unclear: chance may explain it; unknown: one repeat cannot tell."""
        if not self.ratio.is_known:
            return "unknown"
        if self.ratio.within(self.figure.same_within):
            return "same"
        return "differs" if self.ratio.is_real else "unclear"

    @property
    def is_better(self) -> bool:
        """By the medians, whether real or not."""
        return self.ratio.value < 1 if self.figure.better == "less" else self.ratio.value > 1

    @property
    def is_close(self) -> bool:
        """By the medians, whether that is sure or not."""
        return abs(math.log(self.ratio.value)) <= math.log1p(self.figure.same_within)

    @property
    def gain(self) -> Ratio:
        """How many times better: as fast, as small."""
        return self.ratio.inverse() if self.figure.better == "less" else self.ratio

    @property
    def sentence(self) -> str:
        """`ps-async is 3.1× faster to loss 0.35 (2.8 to 3.4×, 5 repeats)`."""
        if self.outcome in ("same", "unclear") or (self.outcome == "unknown" and self.is_close):
            return f"{self.name}: {self.phrase}"
        verb = "is" if self.figure.kind != "amount" else _VERBS.get(self.figure.key, "has")
        return f"{self.name} {verb} {self.phrase}"

    @property
    def phrase(self) -> str:
        """The sentence without its subject."""
        match self.outcome:
            case "same":
                return f"the same {self._noun.removeprefix('the ')} within {self._tolerance} ({self._repeats})"
            case "unclear":
                return f"no difference we can see in {self._noun} ({interval_words(self.ratio)}, {self._repeats})"
            case "differs":
                return f"{self._claim} ({interval_words(self._told)}, {self._repeats})"
            case "unknown":
                same = f"about the same {self._noun.removeprefix('the ')}"
                return f"{same if self.is_close else self._claim} ({self._repeats}: may be chance)"

    @property
    def lead(self) -> str:
        """The same of a winner and the next: `1.4× faster than allreduce (1.2 to 1.6×, 5 repeats)`."""
        match self.outcome:
            case "same":
                return f"the same as {self.base} within {self._tolerance} ({self._repeats})"
            case "unclear":
                return f"no difference we can see from {self.base} ({interval_words(self.ratio)}, {self._repeats})"
            case "differs":
                return f"{self._claim_over_base} ({interval_words(self._told)}, {self._repeats})"
            case "unknown":
                claim = f"about the same as {self.base}" if self.is_close else self._claim_over_base
                return f"{claim} ({self._repeats}: may be chance)"

    @property
    def _noun(self) -> str:
        return self.figure.noun.format(target=target_words(self.target))

    @property
    def _told(self) -> Ratio:
        """The way round that it is spoken of: `3.1× faster`, never `0.32× faster`."""
        return self.ratio.inverse() if self.figure.kind != "amount" and self.ratio.value < 1 else self.ratio

    @property
    def _claim(self) -> str:
        times = ratio_words(self._told)
        phrase = self.figure.phrase.format(ratio=times, target=target_words(self.target))
        if self.figure.kind == "amount":
            return phrase
        return f"{times} {'faster' if self.is_better else 'slower'} {phrase}"

    @property
    def _claim_over_base(self) -> str:
        if self.figure.kind == "amount":
            return f"{ratio_words(self._told)} that of {self.base}"
        return f"{ratio_words(self._told)} {'faster' if self.is_better else 'slower'} than {self.base}"

    @property
    def _tolerance(self) -> str:
        return f"{self.figure.same_within * 100:g} %"

    @property
    def _repeats(self) -> str:
        if self.repeats == self.base_repeats:
            return "one repeat each" if self.repeats == 1 else f"{self.repeats} repeats"
        return f"{self.repeats} and {self.base_repeats} repeats"


_VERBS = {
    "memory_mb": "takes",
    "final_loss": "ends at",
    "final_accuracy": "ends at",
    "updates_to_target": "needs",
    "examples_to_target": "needs",
}


def difference(figure: Metric, group: Group, base: Group, name: str, base_name: str) -> Difference | None:
    """None if one of them has not the figure, or they were to reach different things."""
    if figure.to_target and group.target != base.target:
        return None
    values, others = figure.values(group), figure.values(base)
    ratio = ratio_of_medians(values, others)
    if ratio is None:
        return None
    return Difference(figure, name, base_name, ratio, len(values), len(others), group.target)


def ratio_words(ratio: Ratio) -> str:
    return f"{_figures(ratio.value, _digits(ratio))}×"


def interval_words(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return "no interval"
    digits = _digits(ratio)
    return f"{_figures(ratio.low, digits)} to {_figures(ratio.high, digits)}×"


def _figures(value: float, digits: int) -> str:
    """The larger, the fewer digits after the point: at least two in all."""
    return f"{value:,.{digits if value < 3 else 1 if value < 99.95 else 0}f}"


def _digits(ratio: Ratio) -> int:
    """After the point: as many as it takes to tell the ratio and its interval from 1, and no more."""
    if (ratio.low or ratio.value) >= 2:
        return 1
    nearest = min(abs(value - 1) or 1 for value in (ratio.value, ratio.low, ratio.high) if value is not None)
    return 2 if nearest >= 0.005 else 3 if nearest >= 0.0005 else 4
