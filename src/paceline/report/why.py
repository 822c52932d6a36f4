"""The bottleneck of each configuration as a block that explains why it is one."""

from collections.abc import Sequence

from paceline.analyze.bottleneck.explain import MEANINGS, decision_rules
from paceline.page.blocks import Remedy, Share, Why
from paceline.present import labels
from paceline.present.bottleneck import advice_and_command, second_cause
from paceline.report.bottlenecks import GroupBottleneck
from paceline.store.verdict import Verdict

_MOST_OPEN = 3
_PROBLEMS = ("Failed runs", "Injected faults", "Incidents")


def why_blocks(bottlenecks: Sequence[GroupBottleneck]) -> list[Why]:
    """Open at first if they are few, and of runs that failed."""
    few = len(bottlenecks) <= _MOST_OPEN
    return [_why(one, opened=few or bool(one.failures)) for one in bottlenecks]


def _why(bottleneck: GroupBottleneck, *, opened: bool) -> Why:
    problems = [(title, lines) for title, lines in bottleneck.lists if title in _PROBLEMS and lines]
    return why_block(
        bottleneck.title, bottleneck.summary, bottleneck.verdict, problems=problems, runs=bottleneck.runs, opened=opened
    )


def why_block(
    title: str,
    summary: str,
    verdict: Verdict,
    *,
    problems: Sequence[tuple[str, Sequence[str]]] = (),
    runs: Sequence[str] = (),
    opened: bool = True,
) -> Why:
    """The explanation of one bottleneck."""
    return Why(
        title=title,
        summary=summary,
        cause=labels.cause(verdict.cause),
        share_of=verdict.share_of,
        account=[
            Share(
                cause=labels.cause(part.cause),
                where=part.where,
                share=part.share,
                meaning=MEANINGS.get(part.cause, ""),
            )
            for part in verdict.account
        ],
        evidence=verdict.evidence,
        thresholds=decision_rules(verdict.cause),
        second=second_cause(verdict),
        remedies=[
            Remedy(advice=advice, command=command) for advice, command in map(advice_and_command, verdict.remedy)
        ],
        episodes=[(one.start_s, one.end_s, labels.cause(one.cause), one.where) for one in verdict.episodes],
        problems=problems,
        runs=runs,
        open=opened,
    )
