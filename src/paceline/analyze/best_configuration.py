"""Finds the best configuration for each goal, and by how much it leads the second best."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import Metric, informative_metrics
from paceline.analyze.repeats import Group, Spread, different_updates, group_names, ranking_key, setting
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
    """The workload and the stop rules, if the compared runs have several."""
    different_updates: str = ""
    """How the updates of the winner and the second differ in examples or learning rate, if the metric depends on it."""

    @property
    def is_significant(self) -> bool:
        """Whether chance does not explain the lead. Runs that are too short never have a significant lead."""
        return self.lead.outcome == "differs" and not self.lead.too_short

    @property
    def sentence(self) -> str:
        """`fastest to loss 0.35: ps-async, 0.38 s, 1.4× faster than allreduce (95 % CI 1.2–1.6, n=5)`."""
        text = f"{self.goal}: {self.finding}"
        return f"{self.subject}: {text}" if self.subject else text

    @property
    def finding(self) -> str:
        """The sentence without goal and subject: `ps-async, 0.38 s, 1.4× faster than allreduce (95 % CI …)`."""
        separator = "; " if self.lead.outcome == "unclear" else ", "
        unlike = f"; {self.different_updates}" if self.different_updates else ""
        return f"{self.name}, {self.metric.value_text(self.value.median)}{separator}{self.lead.lead}{unlike}"


def best_configurations(groups: Sequence[Group], names: Sequence[str] | None = None) -> list[BestConfiguration]:
    """One for each goal in which at least two groups of the same workload, data and stop rules can be compared."""
    comparable_groups: dict[tuple[str, ...], list[tuple[Group, str]]] = {}
    for group, name in zip(groups, names or group_names(groups), strict=True):
        if group.ok:
            comparable_groups.setdefault(ranking_key(group), []).append((group, name))
    found = []
    for comparable in comparable_groups.values():
        subject = _subject(comparable[0][0], groups)
        for metric in informative_metrics([group for group, _ in comparable]):
            best = _best(metric, comparable, subject)
            found += [best] if best else []
    return found


def _subject(group: Group, groups: Sequence[Group]) -> str:
    """The workload and the stop rules of a group, where the groups differ in them."""
    usable = [other.first for other in groups if other.ok]
    several_workloads = len({(result.workload, result.data) for result in usable}) > 1
    several_rules = len({setting(result, "stop") for result in usable}) > 1
    rules = f"until {setting(group.first, 'stop')}" if several_rules else ""
    return ", ".join(part for part in (group.first.workload if several_workloads else "", rules) if part)


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
    unlike = different_updates(winner, second, name, second_name) if metric.depends_on_updates else ""
    return BestConfiguration(goal, metric, winner, name, value, lead, subject, unlike)


def _median(metric: Metric, group: Group) -> float:
    spread = group.spread(metric.read)
    return spread.median if spread else 0.0
