"""The figures that runs are compared by, and how each is spoken of."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from paceline.analyze.repeats import Group, Of
from paceline.store.result import Result


class Metric(msgspec.Struct, frozen=True):
    key: str
    """As in the JSON."""
    title: str
    """As in a table, with its unit."""
    of: Of
    better: Literal["less", "more"]
    kind: Literal["time", "rate", "amount"]
    """Times and rates make a configuration faster or slower; an amount is just so many times another."""
    noun: str
    """After "no difference we can see in"; {target} is what was to be reached."""
    phrase: str
    """After "3.1× faster", or around {ratio} for an amount."""
    digits: int | None = None
    """After the point, where three significant ones are not right."""
    same_within: float = 0.01
    """What surely differs by no more than this is called the same, even if the difference is real."""
    scale: float = 1.0
    """What a value is multiplied by to be shown."""

    @property
    def to_target(self) -> bool:
        return "{target}" in self.noun

    def values(self, group: Group) -> list[float]:
        """Of the runs that count; none if this is about a target that not all of them reached."""
        return [] if self.to_target and not group.target else group.values(self.of)

    def show(self, value: float) -> float:
        return value * self.scale


def target_words(rule: str | None) -> str:
    """`loss=0.35` -> `loss 0.35`."""
    return (rule or "the target").replace("=", " ")


def examples_to_target(result: Result) -> float | None:
    """Examples that had gone into the updates when the target was reached."""
    updates = updates_to_target(result)
    if updates is None or not result.batch or not result.updates:
        return None
    return round(updates * result.examples / result.updates)


def updates_to_target(result: Result) -> float | None:
    return result.reached.at_update if result.reached and result.to_target_s is not None else None


def memory_mb(result: Result) -> float | None:
    """The most that each host's tasks took, over all hosts."""
    total = sum(host.memory_mb_max for host in result.hosts)
    return round(total, 3) if total else None


def staleness(result: Result) -> float | None:
    """Mean over all steps of all workers; None where nothing can be stale."""
    known = [(worker.staleness.mean, worker.steps) for worker in result.workers if worker.staleness and worker.steps]
    return sum(mean * steps for mean, steps in known) / sum(steps for _, steps in known) if known else None


TO_TARGET = Metric(
    "to_target_s", "to target s", lambda r: r.to_target_s, "less", "time", "time to {target}", "to {target}"
)
TRAIN = Metric("train_s", "time s", lambda r: r.train_s, "less", "time", "training time", "in training time")
UPDATES = Metric(
    "updates_per_s", "updates/s", lambda r: r.updates_per_s or None, "more", "rate", "updates/s", "in updates/s"
)
EXAMPLES = Metric(
    "examples_per_s", "examples/s", lambda r: r.examples_per_s if r.batch else None, "more", "rate", "examples/s",
    "in examples/s",
)  # fmt: skip
LOSS = Metric(
    "final_loss",
    "loss",
    lambda r: r.final.loss,
    "less",
    "amount",
    "the final loss",
    "{ratio} the final loss",
    4,
    same_within=0.002,
)
ACCURACY = Metric(
    "final_accuracy", "accuracy %", lambda r: r.final.accuracy, "more", "amount", "the accuracy",
    "{ratio} the accuracy", 2, same_within=0.002, scale=100,
)  # fmt: skip
MEMORY = Metric("memory_mb", "memory MB", memory_mb, "less", "amount", "peak memory", "{ratio} the peak memory")
UPDATES_TO_TARGET = Metric(
    "updates_to_target", "updates to target", updates_to_target, "less", "amount", "updates to {target}",
    "{ratio} the updates to {target}", 0,
)  # fmt: skip
EXAMPLES_TO_TARGET = Metric(
    "examples_to_target", "examples to target", examples_to_target, "less", "amount", "examples to {target}",
    "{ratio} the examples to {target}", 0,
)  # fmt: skip
STALENESS = Metric("staleness_mean", "staleness", staleness, "less", "amount", "staleness", "{ratio} the staleness", 2)

COMPARED = (TO_TARGET, TRAIN, EXAMPLES, UPDATES, LOSS, ACCURACY, MEMORY)
ALL = (*COMPARED, UPDATES_TO_TARGET, EXAMPLES_TO_TARGET, STALENESS)


def informative_metrics(groups: Sequence[Group]) -> list[Metric]:
    """Of the figures to compare by, those that tell something new and fair."""
    kinds = {rule.partition("=")[0] for group in groups for rule in group.first.settings.get("stop") or ()}
    # With a target the training ends there, with a number of seconds it takes those; and as many updates of more
    # examples are more work.
    dull = {TRAIN.key} if kinds & {"loss", "accuracy", "seconds"} or not _as_much_work(groups) else set()
    dull |= {LOSS.key} if "loss" in kinds else {ACCURACY.key} if "accuracy" in kinds else set()
    return [figure for figure in COMPARED if figure.key not in dull]


def _as_much_work(groups: Sequence[Group]) -> bool:
    """Whether all went through much the same number of examples, as after an epoch of any batch."""
    examples = [result.examples for group in groups for result in group.ok]
    return not examples or max(examples) <= 1.02 * min(examples)
