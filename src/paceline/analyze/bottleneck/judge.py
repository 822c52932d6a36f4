"""The verdict: the worst suspect, unless another is as bad or nobody is bad enough."""

from typing import Literal

from paceline.analyze.bottleneck.facts import Facts
from paceline.analyze.bottleneck.remedies import Asked, remedies
from paceline.analyze.bottleneck.suspects import Suspect, suspects
from paceline.store.result import Suspect as SecondCause
from paceline.store.result import Verdict

NOT_CLEAR = "not clear"
ENOUGH = 0.25
"""With less than a quarter of the time, a cause does not set the pace."""
APART = 0.03
"""Two causes this close cannot be told apart: repeats of one run differ by as much."""
_MANY_STEPS, _SOME_STEPS = 100, 20


def judge(facts: Facts, asked: Asked) -> Verdict:
    if not facts.steps or not facts.phases.total:
        return Verdict(cause=NOT_CLEAR, where="", share=0.0, evidence=["no step was recorded"], remedy=[])
    first, *rest = suspects(facts)
    second = rest[0] if rest else None
    doubt = _doubt(facts, first, second)
    return Verdict(
        cause=NOT_CLEAR if doubt else first.cause,
        where="" if doubt else first.where,
        share=round(first.share, 4),
        evidence=[doubt, *_both(first, second)] if doubt else list(first.evidence),
        remedy=[] if doubt else remedies(first, asked),
        runner_up=SecondCause(cause=second.cause, where=second.where, share=round(second.share, 4)) if second else None,
        confidence=_confidence(facts, first, second),
    )


def _doubt(facts: Facts, first: Suspect, second: Suspect | None) -> str:
    if facts.coverage < 0.5:
        return f"only {facts.coverage:.0%} of the workers' time is on record"
    if first.share < ENOUGH:
        return f"nothing takes more than {first.share:.0%} of the time"
    if second and first.cause != "startup" and first.share - second.share < APART:
        return f"{first.cause} and {second.cause} take as much of the time as each other"
    return ""


def _both(first: Suspect, second: Suspect | None) -> list[str]:
    return [f"{one.cause} {one.share:.0%}, {one.where}: {one.evidence[0]}" for one in (first, second) if one]


def _confidence(facts: Facts, first: Suspect, second: Suspect | None) -> Literal["high", "medium", "low"]:
    # What a start-up takes is known after one step, and is no part of the others' time.
    if first.cause == "startup":
        return "high"
    margin, steps = first.share - (second.share if second else 0.0), facts.steps
    if steps >= _MANY_STEPS and facts.coverage >= 0.9 and margin >= 0.15 and first.share >= 2 * ENOUGH:
        return "high"
    if steps >= _SOME_STEPS and facts.coverage >= 0.7 and margin >= 0.05:
        return "medium"
    return "low"
