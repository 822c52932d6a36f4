"""The results of `paceline predict` and `paceline advise` as plain data. Their fields are the keys of `--json`."""

import math
from typing import Any, Literal

import msgspec

from paceline.errors import PredictError
from paceline.prediction.predictor import Interval
from paceline.prediction.target import TargetPrediction
from paceline.spec.stop import StopRule
from paceline.store.result import Result
from paceline.store.verdict import AccountedTime

RUN_S = 6
"""Seconds of training of a run that compares candidates."""
_TIME_GOALS = {"time-to-accuracy": "accuracy", "time-to-loss": "loss"}
_RATE_GOALS = ("examples/s", "updates/s")


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction for one configuration, with its options as users write them."""

    workload: str
    engine: str
    strategy: str
    layout: str
    batch: int
    hosts: str
    link: str | None
    cpus: str | None
    updates_per_s: Interval
    examples_per_s: Interval
    bottleneck: AccountedTime
    rests_on: tuple[str, ...]
    """The runs of the same workload and engine that it is made from."""
    not_measured: tuple[str, ...]
    """What no run says much about, so that the interval is wider."""
    log_spread: float
    """Standard deviation of the logarithm of the rates."""
    to_target: TargetPrediction | None = None
    """The time to the requested loss or accuracy; None without one, and for asynchronous strategies."""


class Goal(msgspec.Struct, frozen=True):
    """What the best configuration is best at."""

    kind: Literal["examples/s", "updates/s", "time-to-accuracy", "time-to-loss"]
    target: StopRule | None = None

    @classmethod
    def parse(cls, text: str) -> "Goal":
        name, equals, value = text.partition("=")
        if name in _TIME_GOALS and equals:
            return cls(name, StopRule.parse(f"{_TIME_GOALS[name]}={value}"))  # type: ignore[arg-type]
        if text in _RATE_GOALS:
            return cls(text)  # type: ignore[arg-type]
        raise PredictError(
            f"goal '{text}': must be examples/s, updates/s, time-to-accuracy=X or time-to-loss=X, e.g. "
            "time-to-accuracy=0.97"
        )

    def stop(self, left_s: float) -> dict[str, Any]:
        """The options that end a run."""
        if self.target is None:
            return {"stop": f"seconds={RUN_S}"}
        return {"stop": [str(self.target), f"seconds={max(1, math.floor(left_s))}"]}

    def value(self, result: Result) -> float | None:
        """What a run achieved, higher is better: a rate, or 1 / seconds; None if it did not reach the target."""
        if result.status != "ok":
            return None
        if self.target is None:
            return result.examples_per_s if self.kind == "examples/s" else result.updates_per_s
        reached = result.reached
        return 1 / max(reached.at_s, 1e-3) if reached and reached.rule == str(self.target) else None

    def text(self, value: float) -> str:
        return f"{1 / value:.1f} s to {self.target}" if self.target else f"{value:,.1f} {self.kind}"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate and what is known about it."""

    strategy: str
    layout: str
    batch: int
    command: str
    predicted: float
    """Of the goal, before any of the candidates was run; for a time: 1 / seconds, up to a common factor."""
    expected: float
    """Of the goal, after all runs."""
    runs: tuple[str, ...]
    alive: bool
    """Whether it may still be the best."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the best configuration that was found."""

    goal: str
    command: str
    value: float | None
    """Of the goal, from the runs of the winner; for a time: 1 / seconds. None if no run of it succeeded."""
    sure: float
    """Probability that the winner is within 3 % of the best candidate."""
    ties: tuple[str, ...]
    """Commands of candidates that the runs cannot tell from the winner."""
    seconds: float
    budget_s: float
    runs: int
    candidates: tuple[Tried, ...]
