"""The bottleneck of each configuration, over its repeats."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from paceline.analyze.repeats import Group, group_names
from paceline.present.bottleneck import account_text, repeats_summary
from paceline.present.faults import was_injected
from paceline.present.notes import incident_text
from paceline.store.result import Result
from paceline.store.verdict import Verdict


class GroupBottleneck(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    runs: list[str]
    verdict: Verdict
    """Of the first run with the cause that most repeats have."""
    summary: str
    """The bottleneck of all repeats; if they disagree, how many have which cause."""
    failures: list[str]
    """Runs that did not succeed, each with the reason."""
    faults: list[str]
    """Injected faults, each with its run: the bottleneck includes their effect."""
    incidents: list[str]

    @property
    def lists(self) -> list[tuple[str, list[str]]]:
        """Headings and items of everything but the runs, in the order in which they are shown."""
        return [
            ("Time spent", [text] if (text := account_text(self.verdict)) else []),
            ("Evidence", self.verdict.evidence),
            ("Remedies", self.verdict.remedy),
            ("Failed runs", self.failures),
            ("Injected faults", self.faults),
            ("Incidents", self.incidents),
        ]


def group_bottlenecks(groups: Sequence[Group], labels: Mapping[str, str]) -> list[GroupBottleneck]:
    """`labels` names the runs by their directory."""
    return [_group_bottleneck(name, group, labels) for name, group in zip(group_names(groups), groups, strict=True)]


def _group_bottleneck(name: str, group: Group, labels: Mapping[str, str]) -> GroupBottleneck:
    results = group.ok or group.results
    verdicts = [result.verdict for result in results]
    ((cause, _),) = Counter(verdict.cause for verdict in verdicts).most_common(1)
    return GroupBottleneck(
        title=name,
        runs=[labels[result.dir] for result in group.results],
        verdict=next(verdict for verdict in verdicts if verdict.cause == cause),
        summary=repeats_summary(verdicts),
        failures=[_failure(result, labels[result.dir]) for result in group.results if result.status != "ok"],
        faults=[f"{labels[r.dir]}: {fault.what}" for r in group.results for fault in r.faults if was_injected(fault)],
        incidents=[f"{labels[r.dir]}, {incident_text(incident)}" for r in group.results for incident in r.incidents],
    )


def _failure(result: Result, label: str) -> str:
    return f"{label} {result.status}" + (f": {result.reason}" if result.reason else "")
