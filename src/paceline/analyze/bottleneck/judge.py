"""Chooses the bottleneck: the suspect with the largest share, unless two are equal or none is large enough."""

from typing import Literal

from paceline.analyze.bottleneck.facts import Facts
from paceline.analyze.bottleneck.remedies import Configuration, remedies
from paceline.analyze.bottleneck.suspect import UNKNOWN, Suspect
from paceline.analyze.bottleneck.suspects import suspects
from paceline.analyze.bottleneck.time_account import time_account
from paceline.present.numbers import percent
from paceline.present.thresholds import SHORT_TRAINING_S
from paceline.store.verdict import RUN_TIME, WORKERS_TIME, AccountedTime, Verdict

NOT_CLEAR = "not clear"
MIN_SHARE = 0.25
"""A cause with a smaller share of the time is not named as the bottleneck."""
MIN_MARGIN = 0.03
"""If the shares of two causes differ by less than this, neither is named: repeats of a run vary as much."""
MANY_STEPS, SOME_STEPS = 100, 20
"""Steps of every worker that are needed for high and for medium confidence."""


def judge(facts: Facts, configuration: Configuration) -> Verdict:
    """The bottleneck of a run, with evidence and remedies; its cause is `NOT_CLEAR` if none can be named."""
    if not facts.steps or not facts.phases.total:
        return Verdict(cause=NOT_CLEAR, where="", share=0.0, evidence=["no step was recorded"], remedy=[])
    ranked = suspects(facts)
    first, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    why_not_clear = _why_not_clear(facts, first, second)
    account = [AccountedTime(cause=one.cause, where=one.where, share=round(one.share, 4)) for one in ranked]
    return Verdict(
        cause=NOT_CLEAR if why_not_clear else first.cause,
        where="" if why_not_clear else first.where,
        share=0.0 if why_not_clear else account[0].share,
        evidence=[why_not_clear, *_evidence_of_both(first, second)] if why_not_clear else list(first.evidence),
        remedy=[] if why_not_clear and first.cause != UNKNOWN else remedies(first, configuration),
        runner_up=account[1] if second else None,
        confidence=_confidence(facts, first, second),
        account=account,
        share_of=RUN_TIME if any(one.cause == "startup" for one in ranked) else WORKERS_TIME,
    )


def name_bottleneck(facts: Facts) -> AccountedTime:
    """The bottleneck without evidence and remedies, as `judge` names it."""
    if not facts.steps or not facts.phases.total:
        return AccountedTime(cause=NOT_CLEAR, where="", share=0.0)
    first, *others = suspects(facts)
    if _why_not_clear(facts, first, others[0] if others else None):
        return AccountedTime(cause=NOT_CLEAR, where="", share=0.0)
    return AccountedTime(cause=first.cause, where=first.where, share=round(first.share, 4))


def network_share(facts: Facts) -> float:
    """The share of the workers' time that links account for."""
    account = time_account(facts)
    return account.explained_by_link if account.link else 0.0


def _why_not_clear(facts: Facts, first: Suspect, second: Suspect | None) -> str:
    """The sentence that says why no bottleneck can be named; empty if the first suspect is the bottleneck."""
    if facts.coverage < 0.5:
        return f"only {percent(facts.coverage)} of the workers' time was recorded"
    if first.cause == UNKNOWN:
        return "it is not known what most of the workers' time was spent on"
    if first.share < MIN_SHARE:
        return f"no cause accounts for more than {percent(first.share)} of the time"
    if second and first.share - second.share < MIN_MARGIN:
        return f"{first.cause} and {second.cause} account for about the same share of the time"
    return ""


def _evidence_of_both(first: Suspect, second: Suspect | None) -> list[str]:
    return [
        f"{suspect.cause} {percent(suspect.share)}{', ' * bool(suspect.where)}{suspect.where}: {suspect.evidence[0]}"
        for suspect in (first, second)
        if suspect
    ]


def _confidence(facts: Facts, first: Suspect, second: Suspect | None) -> Literal["high", "medium", "low"]:
    # Startup time is known after one step.
    if first.cause == "startup":
        return "high"
    if facts.seconds < SHORT_TRAINING_S:
        return "low"
    margin, steps = first.share - (second.share if second else 0.0), facts.steps
    if steps >= MANY_STEPS and facts.coverage >= 0.9 and margin >= 0.15 and first.share >= 2 * MIN_SHARE:
        return "high"
    if steps >= SOME_STEPS and facts.coverage >= 0.7 and margin >= 0.05:
        return "medium"
    return "low"
