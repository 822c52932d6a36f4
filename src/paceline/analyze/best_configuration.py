"""Finds the best configuration for each goal, and by how much it leads the second best."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import Metric, informative_metrics
from paceline.analyze.repeats import Group, Spread, comparable_key, group_names
from paceline.present import labels


class BestConfiguration(msgspec.Struct, frozen=True):
    goal: str
    """`fastest to loss 0.35`."""
    metric: Metric
    winner: Group
    name: str
    value: Spread
    lead: Difference
    """The winner compared with the second best."""
    subject: str = ""
    """The workload, if the compared runs have several."""

    @property
    def is_significant(self) -> bool:
        return self.lead.outcome == "differs"

    @property
    def sentence(self) -> str:
        """`fastest to loss 0.35: ps-async, 0.38 s, 1.4× faster than allreduce (95 % CI 1.2–1.6, n=5)`."""
        text = f"{self.goal}: {self.finding}"
        return f"{self.subject}: {text}" if self.subject else text

    @property
    def finding(self) -> str:
        """The sentence without goal and subject: `ps-async, 0.38 s, 1.4× faster than allreduce (95 % CI …)`."""
        separator = "; " if self.lead.outcome == "unclear" else ", "
        return f"{self.name}, {self.metric.value_text(self.value.median)}{separator}{self.lead.lead}"


def best_configurations(groups: Sequence[Group], names: Sequence[str] | None = None) -> list[BestConfiguration]:
    """One for each goal in which at least two groups of the same workload and data can be compared."""
    comparable_groups: dict[tuple[str, str], list[tuple[Group, str]]] = {}
    for group, name in zip(groups, names or group_names(groups), strict=True):
        if group.ok:
            comparable_groups.setdefault(comparable_key(group), []).append((group, name))
    found = []
    for comparable in comparable_groups.values():
        subject = comparable[0][0].first.workload if len(comparable_groups) > 1 else ""
        for metric in informative_metrics([group for group, _ in comparable]):
            best = _best(metric, comparable, subject)
            found += [best] if best else []
    return found


def _best(metric: Metric, comparable: list[tuple[Group, str]], subject: str) -> BestConfiguration | None:
    """None if fewer than two groups have a value of the metric."""
    with_value = [(group, name) for group, name in comparable if metric.values(group)]
    # Times to different targets cannot be compared: keep the groups with the target of the first group.
    if metric.to_target and with_value:
        with_value = [(group, name) for group, name in with_value if group.target == with_value[0][0].target]
    sign = 1 if metric.better == "less" else -1
    ranked = sorted(with_value, key=lambda member: sign * _median(metric, member[0]))
    if len(ranked) < 2:
        return None
    (winner, name), (second, second_name) = ranked[:2]
    value, lead = winner.spread(metric.read), difference(metric, winner, second, name, second_name)
    if value is None or lead is None:
        return None
    goal = metric.label.goal.format(target=labels.target(winner.target))
    return BestConfiguration(goal, metric, winner, name, value, lead, subject)


def _median(metric: Metric, group: Group) -> float:
    spread = group.spread(metric.read)
    return spread.median if spread else 0.0
