"""Stop rules: parse `steps=2000`, and decide which rule of a run is met."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from paceline.errors import SpecError, unknown

PLATEAU = "plateau"
WORK = ("steps", "epochs", "seconds", PLATEAU)
"""The kinds that limit the work, and need no quality to be reached."""
FALLING = ("loss", "perplexity")
"""The qualities of which less is better."""
SHARES = ("accuracy", "top5", "auc")
"""The qualities from 0 to 1 of which more is better."""
TARGETS = (*FALLING, *SHARES)
"""The qualities that Paceline knows. Workloads may declare metrics of their own."""
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,47}")
"""The name of a metric."""
_COUNTED = ("steps", "epochs", "plateau")
"""The kinds whose value is a whole number."""
_MAX_COUNT = 2**32 - 1
"""A step record stores the number of updates in 32 bits."""


class StopRule(msgspec.Struct, frozen=True):
    """One `kind=value` rule. A run ends when the first of its rules is met."""

    kind: str
    """One of WORK and TARGETS, or a metric that the workload declares; planning refuses others."""
    value: float

    @property
    def is_target(self) -> bool:
        """Whether it names a quality to reach. A run whose model never gets that good does not end by it."""
        return self.kind not in WORK

    @property
    def needs_evaluations(self) -> bool:
        return self.is_target or self.kind == PLATEAU

    @classmethod
    def parse(cls, text: str) -> "StopRule":
        kind, equals, number = text.partition("=")
        kind = kind.strip()
        if not equals:
            raise SpecError(f"stop rule '{text}' is not of the form kind=value: write e.g. steps=2000 or loss=0.35")
        if not METRIC_NAME.fullmatch(kind):
            raise SpecError(unknown("stop rule", kind, (*WORK, *TARGETS)))
        try:
            value = float(number)
        except ValueError:
            raise SpecError(f"stop rule '{text}': '{number}' is not a number, write e.g. {kind}=1") from None
        return cls(kind, value).checked()

    def checked(self) -> "StopRule":
        """This rule, if its value is allowed for its kind; else a SpecError."""
        if not math.isfinite(self.value) or (self.value <= 0 and self.kind in (*WORK, *TARGETS)):
            raise SpecError(f"stop rule '{self}': the value must be above 0 and finite")
        if self.kind in _COUNTED and self.value != int(self.value):
            raise SpecError(f"stop rule '{self}': {self.kind} must be a whole number")
        if self.kind in _COUNTED and self.value > _MAX_COUNT:
            raise SpecError(f"stop rule '{self}': {self.kind} must be at most {_MAX_COUNT:,}")
        if self.kind in SHARES and self.value > 1:
            raise SpecError(f"stop rule '{self}': {self.kind} must be at most 1 (write 0.92 for 92 %)")
        return self

    def __str__(self) -> str:
        return f"{self.kind}={self.value:.15g}"


class Improvement:
    """Counts the evaluations since the best one."""

    def __init__(self) -> None:
        self.best = math.inf
        self.evaluations_since = 0

    def add(self, value: float) -> int:
        """Add the value of an evaluation, of which less is better; returns the evaluations since the best value.

        It is 0 after an evaluation that was better than all before it. A value that is not a number is never better.
        """
        if value < self.best:
            self.best, self.evaluations_since = value, 0
        else:
            self.evaluations_since += 1
        return self.evaluations_since


def read_rules(given: Any) -> tuple[StopRule, ...]:
    """The rules that a spec gives as text, as a StopRule, as a list of these, or as a table {steps = 2000}."""
    if isinstance(given, Mapping):
        given = [f"{kind}={number}" for kind, number in given.items()]
    rules = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not rules:
        raise SpecError("the list of stop rules is empty: give at least one, e.g. steps=2000")
    return tuple(rule.checked() if isinstance(rule, StopRule) else StopRule.parse(str(rule)) for rule in rules)


def first_met_rule(
    rules: Sequence[StopRule],
    *,
    update: int,
    seconds: float,
    updates_per_epoch: int,
    qualities: Mapping[str, float] | None = None,
    since_best_loss: int | None = None,
    falling: Collection[str] = FALLING,
) -> StopRule | None:
    """The first rule that is met, or None. `falling` are the qualities of which less is better.

    `qualities`, such as the loss and the accuracy by name, and `since_best_loss`, the number of evaluations since the
    lowest loss, are given only after an evaluation.
    """
    for rule in rules:
        match rule.kind:
            case "steps":
                met = update >= rule.value
            case "epochs":
                met = update >= rule.value * updates_per_epoch
            case "seconds":
                met = seconds >= rule.value
            case "plateau":
                met = since_best_loss is not None and since_best_loss >= rule.value
            case _:
                met = _is_reached(rule, (qualities or {}).get(rule.kind), falling)
        if met:
            return rule
    return None


def _is_reached(rule: StopRule, quality: float | None, falling: Collection[str]) -> bool:
    if quality is None:
        return False
    return quality <= rule.value if rule.kind in falling else quality >= rule.value


def target_of(rule: str) -> str | None:
    """The quality that a rule such as `loss=0.35` names; None if it is a rule of another kind."""
    kind = rule.partition("=")[0]
    return kind if kind not in WORK else None


def limiting_rule(rules: Sequence[StopRule], updates_per_epoch: int) -> tuple[int, StopRule] | None:
    """The last update that the `steps` and `epochs` rules allow, and the rule that sets it; None without such rules."""
    limits = [(int(rule.value), rule) for rule in rules if rule.kind == "steps"]
    limits += [(int(rule.value) * updates_per_epoch, rule) for rule in rules if rule.kind == "epochs"]
    return min(limits, key=lambda limit: limit[0], default=None)
