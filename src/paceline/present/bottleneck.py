"""A bottleneck in words."""

from paceline.present import labels
from paceline.present.numbers import percent
from paceline.store.result import Verdict


def bottleneck_location(cause: str, where: str) -> str:
    """`network: h1, outbound link`."""
    return f"{labels.cause(cause)}: {where}" if where else labels.cause(cause)


def bottleneck_share(verdict: Verdict) -> str:
    """`76 % of the workers' time, high confidence`; empty if the bottleneck is not clear."""
    if not verdict.where:
        return ""
    return f"{percent(verdict.share)} of the workers' time, {verdict.confidence} confidence"


def bottleneck_summary(verdict: Verdict) -> str:
    """`network: h1, outbound link (76 % of the workers' time, high confidence)`."""
    share = bottleneck_share(verdict)
    return bottleneck_location(verdict.cause, verdict.where) + (f" ({share})" if share else "")


def second_cause(verdict: Verdict) -> str:
    """`CPU contention: h1, 21 %`: what limits the run once the bottleneck is removed; empty if there is none."""
    other = verdict.runner_up
    if other is None or not verdict.where:
        return ""
    return f"{bottleneck_location(other.cause, other.where)}, {percent(other.share)}"
