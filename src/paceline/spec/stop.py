"""When a run is done: rules, and the pure question which of them holds."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from paceline.errors import SpecError, unknown

StopKind = Literal["steps", "loss", "accuracy", "epochs", "seconds"]
_KINDS = get_args(StopKind)
_WHOLE = ("steps", "epochs")
_MOST = 2**32 - 1
"""As many updates as a record can count."""


class StopRule(msgspec.Struct, frozen=True):
    """One `kind=value` rule; the first of a run's rules that holds ends it."""

    kind: StopKind
    value: float

    @classmethod
    def parse(cls, text: str) -> "StopRule":
        kind, equals, number = text.partition("=")
        kind = kind.strip()
        if not equals:
            raise SpecError(f"stop rule '{text}' is not understood: write e.g. steps=2000 or loss=0.35")
        if kind not in _KINDS:
            raise SpecError(unknown("stop rule", kind, _KINDS))
        try:
            value = float(number)
        except ValueError:
            raise SpecError(f"stop rule '{text}': '{number}' is not a number") from None
        return cls(kind, value).checked()  # type: ignore[arg-type]

    def checked(self) -> "StopRule":
        if not 0 < self.value < float("inf"):
            raise SpecError(f"stop rule '{self}': the value must be above 0 and finite")
        if self.kind in _WHOLE and self.value != int(self.value):
            raise SpecError(f"stop rule '{self}': {self.kind} must be a whole number")
        if self.kind in _WHOLE and self.value > _MOST:
            raise SpecError(f"stop rule '{self}': at most {_MOST:,} {self.kind}")
        if self.kind == "accuracy" and self.value > 1:
            raise SpecError(f"stop rule '{self}': accuracy is a fraction, at most 1 (write 0.92 for 92 %)")
        return self

    def __str__(self) -> str:
        return f"{self.kind}={self.value:.15g}"


def read_rules(given: Any) -> tuple[StopRule, ...]:
    """Rules from whatever a spec may hold: text, a StopRule, a list of these, or a table {steps = 2000}."""
    if isinstance(given, Mapping):
        given = [f"{kind}={number}" for kind, number in given.items()]
    rules = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not rules:
        raise SpecError("no stop rule: give at least one, e.g. steps=2000")
    return tuple(rule.checked() if isinstance(rule, StopRule) else StopRule.parse(str(rule)) for rule in rules)


def first_that_holds(
    rules: Sequence[StopRule],
    *,
    update: int,
    seconds: float,
    updates_per_epoch: int,
    loss: float | None = None,
    accuracy: float | None = None,
) -> StopRule | None:
    """The rule that ends the run now. `loss` and `accuracy` are given only just after an evaluation."""
    for rule in rules:
        match rule.kind:
            case "steps":
                holds = update >= rule.value
            case "epochs":
                holds = update >= rule.value * updates_per_epoch
            case "seconds":
                holds = seconds >= rule.value
            case "loss":
                holds = loss is not None and loss <= rule.value
            case "accuracy":
                holds = accuracy is not None and accuracy >= rule.value
        if holds:
            return rule
    return None


def limiting_rule(rules: Sequence[StopRule], updates_per_epoch: int) -> tuple[int, StopRule] | None:
    """The update at which a counted rule ends the run, whatever else happens, and that rule."""
    counted = [(int(rule.value), rule) for rule in rules if rule.kind == "steps"]
    counted += [(int(rule.value) * updates_per_epoch, rule) for rule in rules if rule.kind == "epochs"]
    return min(counted, key=lambda limit: limit[0], default=None)
