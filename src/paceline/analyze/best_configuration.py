"""Which configuration wins for which goal, by how much over the next, and whether that is real."""

from collections.abc import Sequence

import msgspec

from paceline import units
from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import Metric, informative_metrics, target_words
from paceline.analyze.repeats import Group, Spread, comparable_key, names

_GOALS = {
    "to_target_s": "first at {target}",
    "train_s": "shortest training",
    "updates_per_s": "most updates/s",
    "examples_per_s": "most examples/s",
    "final_loss": "lowest loss",
    "final_accuracy": "highest accuracy",
    "memory_mb": "least memory",
}
_UNITS = {"to_target_s": " s", "train_s": " s", "final_accuracy": " %", "memory_mb": " MB"}


class BestConfiguration(msgspec.Struct, frozen=True):
    goal: str
    """`first at loss 0.35`."""
    figure: Metric
    winner: Group
    name: str
    value: Spread
    lead: Difference
    """Of the winner over the next."""
    subject: str = ""
    """Which workload this is about, where there are several."""

    @property
    def is_real(self) -> bool:
        return self.lead.outcome == "differs"

    @property
    def sentence(self) -> str:
        """`first at loss 0.35: ps-async, 0.38 s, 1.4× faster than allreduce (1.2 to 1.6×, 5 repeats)`."""
        shown = units.decimals(self.figure.show(self.value.median), self.figure.digits)
        join = "; " if self.lead.outcome == "unclear" else ", "
        told = f"{self.goal}: {self.name}, {shown}{_UNITS.get(self.figure.key, '')}{join}{self.lead.lead}"
        return f"{self.subject}: {told}" if self.subject else told


def best_configurations(groups: Sequence[Group], called: Sequence[str] | None = None) -> list[BestConfiguration]:
    """One for each goal that two or more groups can be held to; workloads and data sets are kept apart."""
    fields: dict[tuple[str, str], list[tuple[Group, str]]] = {}
    for group, name in zip(groups, called or names(groups), strict=True):
        if group.ok:
            fields.setdefault(comparable_key(group), []).append((group, name))
    found = []
    for field in fields.values():
        subject = field[0][0].first.workload if len(fields) > 1 else ""
        for figure in informative_metrics([group for group, _ in field]):
            found += _answer(figure, field, subject)
    return found


def _answer(figure: Metric, field: list[tuple[Group, str]], subject: str) -> list[BestConfiguration]:
    """None, or one."""
    able = [(group, name) for group, name in field if figure.values(group)]
    if figure.to_target and able:
        able = [(group, name) for group, name in able if group.target == able[0][0].target]
    sign = 1 if figure.better == "less" else -1
    ranked = sorted(able, key=lambda member: sign * _middle(figure, member[0]))
    if len(ranked) < 2:
        return []
    (winner, name), (second, second_name) = ranked[:2]
    value, lead = winner.spread(figure.of), difference(figure, winner, second, name, second_name)
    if value is None or lead is None:
        return []
    goal = _GOALS[figure.key].format(target=target_words(winner.target))
    return [BestConfiguration(goal, figure, winner, name, value, lead, subject)]


def _middle(figure: Metric, group: Group) -> float:
    spread = group.spread(figure.of)
    return spread.median if spread else 0.0
