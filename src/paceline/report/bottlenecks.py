"""What set the pace of each configuration, with the repeats of one together."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from paceline.analyze.repeats import Group
from paceline.report.titles import titles
from paceline.store.result import Result, Verdict


class GroupBottleneck(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    runs: list[str]
    verdict: Verdict
    """Of the first run with the cause that most repeats have."""
    agree: int
    """Repeats with that cause."""
    failures: list[str]
    """Runs that did not end well, and why."""
    disturbed: list[str]
    """Runs in which something was made to go wrong: this is a verdict of that, too."""
    incidents: list[str]


def group_bottlenecks(groups: Sequence[Group]) -> list[GroupBottleneck]:
    return [_of(title, group) for title, group in zip(titles(groups), groups, strict=True)]


def in_words(verdict: Verdict) -> str:
    where = f" at {verdict.where}" if verdict.where else ""
    return f"{verdict.cause}{where}, {verdict.share:.0%} of the workers' time; confidence {verdict.confidence}"


def runner_up(verdict: Verdict) -> str:
    second = verdict.runner_up
    return f"{second.cause} at {second.where}, {second.share:.0%}" if second else ""


def _of(title: str, group: Group) -> GroupBottleneck:
    judged = group.ok or group.results
    cause, agree = Counter(result.verdict.cause for result in judged).most_common(1)[0]
    return GroupBottleneck(
        title=title,
        runs=[result.run for result in group.results],
        verdict=next(result.verdict for result in judged if result.verdict.cause == cause),
        agree=agree,
        failures=[_failure(result) for result in group.results if result.status != "ok"],
        disturbed=[f"{r.run}: {f.what}" for r in group.results for f in r.faults if f.at_s is not None],
        incidents=[f"{r.run}, {i.t_s:.2f} s: {i.what}" for r in group.results for i in r.incidents],
    )


def _failure(result: Result) -> str:
    return f"{result.run} {result.status}" + (f": {result.reason}" if result.reason else "")
