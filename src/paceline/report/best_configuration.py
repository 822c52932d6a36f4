"""Which configuration wins for which goal, as the page tells it."""

from collections.abc import Sequence

import msgspec

from paceline.analyze import best_configuration as analysis
from paceline.analyze.metrics import informative_metrics
from paceline.analyze.repeats import Group
from paceline.report.titles import titles
from paceline.terminal import format as fmt


class BestConfigurationRow(msgspec.Struct, frozen=True, kw_only=True):
    goal: str
    winner: str
    """The title of the configuration."""
    sentence: str
    figure: str
    """The winner's, with its spread over repeats."""
    second: str
    by: str
    """How far the winner is ahead of the second, and whether that is real."""


def best_configuration_rows(groups: Sequence[Group]) -> list[BestConfigurationRow]:
    """One for each goal that some run has a figure for; none if no run ended well."""
    named = [(title, group) for title, group in zip(titles(groups), groups, strict=True) if group.ok]
    if len(named) == 1:
        return _alone(*named[0])
    found = analysis.best_configurations([group for _, group in named], [title for title, _ in named])
    return [_told(one, [group for _, group in named]) for one in found]


def _told(one: analysis.BestConfiguration, groups: Sequence[Group]) -> BestConfigurationRow:
    missed = sum(not one.figure.values(group) for group in groups) if one.figure.to_target else 0
    sentence = one.sentence + (f"; {missed} of {len(groups)} configurations did not get there" if missed else "")
    return BestConfigurationRow(
        goal=one.goal,
        winner=one.name,
        sentence=f"{sentence[0].upper()}{sentence[1:]}.",
        figure=fmt.figure(one.figure, one.winner),
        second=one.lead.base,
        by=one.lead.lead,
    )


def _alone(title: str, group: Group) -> list[BestConfigurationRow]:
    """What there is to say without anything to hold it against."""
    figures = [figure for figure in informative_metrics([group]) if figure.values(group)]
    return [
        BestConfigurationRow(
            goal=figure.title,
            winner=title,
            sentence=f"{figure.title}: {fmt.figure(figure, group)}.",
            figure=fmt.figure(figure, group),
            second="-",
            by="-",
        )
        for figure in figures
    ]
