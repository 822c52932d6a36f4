"""The bottleneck of each configuration, over its repeats."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from paceline.analyze.repeats import Group, group_names
from paceline.present.faults import was_injected
from paceline.store.result import Result, Verdict


class GroupBottleneck(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    runs: list[str]
    verdict: Verdict
    """Of the first run with the cause that most repeats have."""
    agree: int
    """Number of repeats with that cause."""
    failures: list[str]
    """Runs that did not succeed, each with the reason."""
    faults: list[str]
    """Injected faults, each with its run: the bottleneck includes their effect."""
    incidents: list[str]

    @property
    def lists(self) -> list[tuple[str, list[str]]]:
        """Headings and items of everything but the runs, in the order in which they are shown."""
        return [
            ("Evidence", self.verdict.evidence),
            ("Remedies", self.verdict.remedy),
            ("Failed runs", self.failures),
            ("Injected faults", self.faults),
            ("Incidents", self.incidents),
        ]


def group_bottlenecks(groups: Sequence[Group]) -> list[GroupBottleneck]:
    return [_group_bottleneck(name, group) for name, group in zip(group_names(groups), groups, strict=True)]


def _group_bottleneck(name: str, group: Group) -> GroupBottleneck:
    results = group.ok or group.results
    cause, agree = Counter(result.verdict.cause for result in results).most_common(1)[0]
    return GroupBottleneck(
        title=name,
        runs=[result.run for result in group.results],
        verdict=next(result.verdict for result in results if result.verdict.cause == cause),
        agree=agree,
        failures=[_failure(result) for result in group.results if result.status != "ok"],
        faults=[f"{r.run}: {fault.what}" for r in group.results for fault in r.faults if was_injected(fault)],
        incidents=[
            f"{r.run}, {incident.t_s:.2f} s: {incident.what}" for r in group.results for incident in r.incidents
        ],
    )


def _failure(result: Result) -> str:
    return f"{result.run} {result.status}" + (f": {result.reason}" if result.reason else "")
