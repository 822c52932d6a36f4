"""The rows of the report's section on the best configuration per goal."""

from collections.abc import Sequence

import msgspec

from paceline.analyze import best_configuration as analysis
from paceline.analyze.metrics import informative_metrics
from paceline.analyze.repeats import Group, group_names, ranking_key
from paceline.present.numbers import MISSING

COLUMNS = ("goal", "best configuration", "value", "second best", "difference")


class BestConfigurationRow(msgspec.Struct, frozen=True, kw_only=True):
    goal: str
    """With the workload and the stop rules in front, if the compared runs have several."""
    winner: str
    """The name of the configuration."""
    finding: str
    """`ps-async, 0.38 s, 1.4× faster than allreduce (95 % CI 1.2–1.6, n=5)`."""
    value: str
    """Of the winner: the median and the range over its repeats."""
    value_with_unit: str
    """The median of the winner, for a sentence."""
    second: str
    lead: str
    """How far the winner is ahead of the second, and whether that is significant."""
    metric: str
    """The key of the metric."""
    significant: bool = False
    """Whether chance does not explain the lead."""

    @property
    def cells(self) -> list[str]:
        """In the order of `COLUMNS`."""
        return [self.goal, self.winner, self.value, self.second, self.lead]


def best_configuration_rows(groups: Sequence[Group]) -> list[BestConfigurationRow]:
    """One for each goal for which some run has a value; none if no run succeeded."""
    named = [(name, group) for name, group in zip(group_names(groups), groups, strict=True) if group.ok]
    if len(named) == 1:
        return _rows_of_one(*named[0])
    usable = [group for _, group in named]
    return [
        _row(best, [group for group in usable if ranking_key(group) == ranking_key(best.winner)])
        for best in analysis.best_configurations(usable, [name for name, _ in named])
    ]


def _row(best: analysis.BestConfiguration, groups: Sequence[Group]) -> BestConfigurationRow:
    missed = sum(not best.metric.values(group) for group in groups) if best.metric.to_target else 0
    reach = f"; {missed} of {len(groups)} configurations did not reach it" if missed else ""
    return BestConfigurationRow(
        goal=f"{best.subject}: {best.goal}" if best.subject else best.goal,
        winner=best.name,
        finding=best.finding + reach,
        value=best.metric.text(best.winner),
        value_with_unit=best.metric.value_text(best.value.median),
        second=best.lead.base,
        lead=best.lead.lead + reach,
        metric=best.metric.key,
        significant=best.is_significant,
    )


def _rows_of_one(name: str, group: Group) -> list[BestConfigurationRow]:
    """The metrics of a single configuration, which is compared with nothing."""
    return [
        BestConfigurationRow(
            goal=metric.title,
            winner=name,
            finding=metric.text(group),
            value=metric.text(group),
            value_with_unit=metric.text(group) + metric.label.unit,
            second=MISSING,
            lead=MISSING,
            metric=metric.key,
        )
        for metric in informative_metrics([group])
        if metric.values(group)
    ]


def nothing_ranked(groups: Sequence[Group]) -> str:
    """Why there is no best configuration."""
    if not any(group.ok for group in groups):
        return "No run succeeded, so there is nothing to compare."
    return "No two configurations have the same workload, data and stop rules, so none can be called the best."
