"""The metrics by which configurations are compared, and the words for each in a sentence."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from paceline.analyze.repeats import Group, ReadMetric
from paceline.present import labels
from paceline.present.numbers import MISSING, decimals, median_and_range
from paceline.spec.stop import WORK
from paceline.store.result import Result

_SAME_WORK = 1.02
"""Runs did the same work if their numbers of examples differ by at most this factor: epochs end at different steps for
different batch sizes."""


class Metric(msgspec.Struct, frozen=True):
    key: str
    """Its key in the JSON and in `present.labels.METRICS`."""
    read: ReadMetric
    better: Literal["less", "more"]
    kind: Literal["time", "rate", "amount"]
    """Configurations are faster or slower in a time or a rate; of an amount they have more or less."""
    noun: str
    """After "no significant difference in"; {target} is the loss or accuracy to reach."""
    phrase: str
    """After "3.1× faster", or around {ratio} for an amount."""
    same_within: float = 0.01
    """Values that differ by at most this share are reported as the same, even if the difference is significant."""

    @property
    def label(self) -> labels.MetricLabel:
        return labels.METRICS[self.key]

    @property
    def title(self) -> str:
        return self.label.title

    @property
    def to_target(self) -> bool:
        """Whether it is defined only for runs that reached their target loss or accuracy."""
        return "{target}" in self.noun

    @property
    def depends_on_updates(self) -> bool:
        """Whether it depends on how many examples an update has and on its learning rate, as the progress of training
        does. Examples/s and memory do not."""
        return self.to_target or self.key in (TRAIN.key, UPDATES.key, LOSS.key, ACCURACY.key)

    def values(self, group: Group) -> list[float]:
        """One value per usable run; empty if this metric needs a target that not all runs of the group reached."""
        return [] if self.to_target and not group.target else group.values(self.read)

    def scaled(self, value: float) -> float:
        """In the unit in which it is shown."""
        return value * self.label.scale

    def value_text(self, value: float) -> str:
        """`0.38 s`: one value with its unit, for a sentence."""
        return decimals(self.scaled(value), self.label.digits) + self.label.unit

    def text(self, group: Group) -> str:
        """`1.24 [1.10–1.46]`: the median and the range over the repeats of a group; `-` if it has no value."""
        spread = group.spread(self.read) if self.values(group) else None
        if spread is None:
            return MISSING
        median, lowest, highest = map(self.scaled, (spread.median, spread.lowest, spread.highest))
        return median_and_range(median, lowest, highest, self.label.digits)


def examples_to_target(result: Result) -> float | None:
    """Training examples in the updates that were applied until the target was reached."""
    updates = updates_to_target(result)
    if updates is None or not result.batch or not result.updates:
        return None
    return round(updates * result.examples / result.updates)


def updates_to_target(result: Result) -> float | None:
    return result.reached.at_update if result.reached and result.to_target_s is not None else None


def memory_mb(result: Result) -> float | None:
    """Sum over the hosts of the peak memory of their tasks."""
    total = sum(host.memory_mb_max for host in result.hosts)
    return round(total, 3) if total else None


def exchanged_mb_per_update(result: Result) -> float | None:
    """Sent and received by all workers together."""
    exchanged = result.exchanged
    return exchanged.sent_mb_per_update + exchanged.received_mb_per_update if exchanged else None


def exchanged_per_example(result: Result) -> float | None:
    """Bytes sent and received by all workers, per training example."""
    return result.exchanged.bytes_per_example if result.exchanged else None


def staleness(result: Result) -> float | None:
    """Mean over all steps of all workers; None for synchronous strategies."""
    known = [(one.staleness.mean, one.own_steps) for one in result.workers if one.staleness and one.own_steps]
    return sum(mean * steps for mean, steps in known) / sum(steps for _, steps in known) if known else None


TO_TARGET = Metric("to_target_s", lambda r: r.to_target_s, "less", "time", "time to {target}", "to {target}")
TRAIN = Metric("train_s", lambda r: r.train_s, "less", "time", "training time", "in training time")
UPDATES = Metric("updates_per_s", lambda r: r.updates_per_s or None, "more", "rate", "updates/s", "in updates/s")
EXAMPLES = Metric(
    "examples_per_s", lambda r: r.examples_per_s if r.batch else None, "more", "rate", "examples/s", "in examples/s"
)
LOSS = Metric(
    "final_loss", lambda r: r.final.loss, "less", "amount", "test loss", "{ratio} the test loss", same_within=0.002
)
ACCURACY = Metric(
    "final_accuracy", lambda r: r.final.accuracy, "more", "amount", "accuracy", "{ratio} the accuracy",
    same_within=0.002,
)  # fmt: skip
MEMORY = Metric("memory_mb", memory_mb, "less", "amount", "peak memory", "{ratio} the peak memory")
UPDATES_TO_TARGET = Metric(
    "updates_to_target", updates_to_target, "less", "amount", "updates to {target}", "{ratio} the updates to {target}"
)
EXAMPLES_TO_TARGET = Metric(
    "examples_to_target", examples_to_target, "less", "amount", "examples to {target}",
    "{ratio} the examples to {target}",
)  # fmt: skip
STALENESS = Metric("staleness_mean", staleness, "less", "amount", "mean staleness", "{ratio} the staleness")
EXCHANGED = Metric(
    "exchanged_bytes_per_example", exchanged_per_example, "less", "amount", "bytes exchanged per example",
    "{ratio} the bytes per example",
)  # fmt: skip

COMPARED = (TO_TARGET, TRAIN, EXAMPLES, UPDATES, LOSS, ACCURACY, MEMORY)
ALL = (*COMPARED, UPDATES_TO_TARGET, EXAMPLES_TO_TARGET, STALENESS, EXCHANGED)


def informative_metrics(groups: Sequence[Group]) -> list[Metric]:
    """The compared metrics without those that these runs' stop rules determine or make unfair.

    A run that stops at a loss ends at that loss, and one that stops after some seconds takes that long. Training time
    is unfair if the same number of updates meant more examples for some groups. Updates/s are unfair if an update has
    more examples in some groups.
    """
    kinds = {rule.partition("=")[0] for group in groups for rule in group.first.settings.get("stop") or ()}
    skipped = {TRAIN.key} if kinds - set(WORK) or "seconds" in kinds or not _did_same_work(groups) else set()
    skipped |= {UPDATES.key} if len({group.first.examples_per_update for group in groups}) > 1 else set()
    skipped |= {LOSS.key} if "loss" in kinds else {ACCURACY.key} if "accuracy" in kinds else set()
    return [metric for metric in COMPARED if metric.key not in skipped]


def _did_same_work(groups: Sequence[Group]) -> bool:
    examples = [result.examples for group in groups for result in group.ok]
    return not examples or max(examples) <= _SAME_WORK * min(examples)
