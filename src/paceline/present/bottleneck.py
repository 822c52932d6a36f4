"""A bottleneck in words."""

import re
from collections import Counter
from collections.abc import Sequence

from paceline.present import labels
from paceline.present.numbers import MISSING, percent
from paceline.store.verdict import Verdict

COMMAND_MARK = "; command: "
"""Between the advice of a remedy and its command."""


def bottleneck_location(cause: str, where: str) -> str:
    """`network: h1, outbound link`."""
    return f"{labels.cause(cause)}: {where}" if where else labels.cause(cause)


def bottleneck_share(verdict: Verdict) -> str:
    """`76 % of the workers' time, high confidence`; empty if the bottleneck is not clear."""
    if not verdict.where:
        return ""
    return f"{percent(verdict.share)} of {verdict.share_of}, {verdict.confidence} confidence"


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


def account_text(verdict: Verdict) -> str:
    """`network 76 %, CPU contention 20 %, compute 4 %`: the percentages add up to 100; empty if nothing is known.

    Causes that would be shown as 0 % are combined as `rest`.
    """
    shown = [(labels.cause(part.cause), round(part.share * 100)) for part in verdict.account if part.share >= 0.005]
    if not shown:
        return ""
    rest = 100 - sum(points for _, points in shown)
    # If rounding up made the sum too large, the smallest parts are shown as smaller, not the bottleneck.
    for number in reversed(range(len(shown))):
        name, points = shown[number]
        taken = min(points, max(0, -rest))
        shown[number], rest = (name, points - taken), rest + taken
    shown += [("rest", rest)] if rest > 0 else []
    return ", ".join(f"{name} {points} %" for name, points in shown if points)


def advice_and_command(remedy: str) -> tuple[str, str]:
    """The two parts of a remedy; the command is empty if no single setting does it."""
    advice, _, command = remedy.partition(COMMAND_MARK)
    return advice, command


def repeats_summary(verdicts: Sequence[Verdict]) -> str:
    """The bottleneck of all repeats of a configuration; if they disagree, how many have which cause.

    `network: h1, outbound link (58–66 % of the workers' time, medium confidence, in all 3 repeats)`,
    `repeats disagree: compute in 2 of 3, network in 1 of 3`.
    """
    if len(verdicts) == 1:
        return bottleneck_summary(verdicts[0])
    if len({verdict.cause for verdict in verdicts}) > 1:
        return f"repeats disagree: {_causes_of_repeats(verdicts)}"
    first, places = verdicts[0], {verdict.where for verdict in verdicts}
    location = bottleneck_location(first.cause, first.where if len(places) == 1 else "")
    if not first.where:
        return f"{location} (in all {len(verdicts)} repeats)"
    confidence = min((verdict.confidence for verdict in verdicts), key=("low", "medium", "high").index)
    share = f"{_share_range(verdicts)} of {first.share_of}"
    return f"{location} ({share}, {confidence} confidence, in all {len(verdicts)} repeats)"


def short_bottleneck(verdicts: Sequence[Verdict]) -> str:
    """For a table cell: `network: h1 62 %`, `not clear`, or `compute in 2 of 3, network in 1 of 3`."""
    if not verdicts:
        return MISSING
    if len({verdict.cause for verdict in verdicts}) > 1:
        return _causes_of_repeats(verdicts)
    first, places = verdicts[0], {_short_place(verdict.where) for verdict in verdicts}
    location = bottleneck_location(first.cause, places.pop() if len(places) == 1 else "")
    return f"{location} {_share_range(verdicts)}" if first.where else location


def _causes_of_repeats(verdicts: Sequence[Verdict]) -> str:
    causes = Counter(verdict.cause for verdict in verdicts)
    return ", ".join(f"{labels.cause(cause)} in {runs} of {len(verdicts)}" for cause, runs in causes.most_common())


def _share_range(verdicts: Sequence[Verdict]) -> str:
    """`62 %`, or `58–66 %` if the repeats differ."""
    shares = sorted(verdict.share for verdict in verdicts)
    low, high = percent(shares[0]), percent(shares[-1])
    return high if low == high else f"{low.removesuffix(' %')}–{high}"


def _short_place(where: str) -> str:
    """The task or host of a place: `w0 on h1` -> `w0`, `h1, outbound link` -> `h1`, `h1 (w0, w1)` -> `h1`."""
    return re.split(r",| on | \(", where)[0]
