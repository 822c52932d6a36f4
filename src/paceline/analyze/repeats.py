"""Groups the repeats of one configuration, and finds the settings in which groups differ."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from statistics import median
from typing import Any

import msgspec

from paceline.present.configurations import configuration_name, configuration_names
from paceline.present.numbers import count
from paceline.present.thresholds import FEW_UPDATES, SHORT_TRAINING_S
from paceline.spec.experiment import DEFAULTS
from paceline.spec.stop import target_of
from paceline.store.result import Result

ReadMetric = Callable[[Result], float | None]
"""Reads one metric of a run."""
_NAME_OF_ONE = ("engine", "strategy", "layout", "batch")
"""Settings that name a configuration when there is no other one to differ from."""


class Spread(msgspec.Struct, frozen=True):
    """A metric over the repeats of a configuration."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


class Group(msgspec.Struct, frozen=True):
    """All repeats of one configuration."""

    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def ok(self) -> tuple[Result, ...]:
        """The runs whose metrics can be used: successful and not tainted."""
        return tuple(result for result in self.results if not exclusion_reason(result))

    @property
    def workers(self) -> int:
        return len(self.first.workers)

    @property
    def target(self) -> str | None:
        """The stop rule on loss or accuracy that every usable run reached: `loss=0.35`."""
        rules = {result.reached.rule if result.reached else None for result in self.ok}
        rule = rules.pop() if len(rules) == 1 else None
        return rule if rule and target_of(rule) else None

    @property
    def requested_targets(self) -> list[str]:
        """The stop rules on loss or accuracy, reached or not."""
        return [rule for rule in self.first.settings.get("stop") or () if target_of(rule)]

    @property
    def too_short(self) -> str:
        """Why the runs are too short to compare their speed: `trained for 0.04 s`, `made 3 updates`; empty if not."""
        if not self.ok:
            return ""
        seconds, updates = median(run.train_s for run in self.ok), median(run.updates for run in self.ok)
        if seconds < SHORT_TRAINING_S:
            return f"trained for {seconds:.2g} s"
        return f"made {count(round(updates), 'update')}" if updates < FEW_UPDATES else ""

    def values(self, read: ReadMetric) -> list[float]:
        """One value per usable run that has the metric."""
        return [value for result in self.ok if (value := read(result)) is not None]

    def spread(self, read: ReadMetric) -> Spread | None:
        values = self.values(read)
        return Spread.of(values) if values else None


def exclusion_reason(result: Result) -> str | None:
    """Why a run is excluded from comparisons; None if it is not."""
    if result.status != "ok":
        return f"{result.status}: {result.reason}" if result.reason else result.status
    return "tainted: something disturbed it" if result.tainted else None


def group_repeats(results: Sequence[Result], *, by_sweep: bool = False) -> list[Group]:
    """`by_sweep` keeps equal runs of different sweeps apart, to compare before and after a change."""
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        groups.setdefault((*_identity(result), sweep_of(result) if by_sweep else None), []).append(result)
    return [Group(tuple(members)) for members in groups.values()]


def sweep_of(result: Result) -> tuple[str, str]:
    """The sweep of a run: its runs directory and its name. A run's id is the name of its sweep and a number."""
    return str(PurePath(result.dir).parent), re.sub(r"-\d+$", "", result.run)


def run_labels(results: Sequence[Result]) -> dict[str, str]:
    """What each run is called, by its directory: its id, or its directory if another run has the same id."""
    ids = Counter(run for run, _ in {(result.run, result.dir) for result in results})
    return {result.dir: result.run if ids[result.run] == 1 else result.dir for result in results}


def overlap(results: Sequence[Result]) -> bool:
    """Whether a configuration is in more than one sweep."""
    pairs = {(_identity(result), sweep_of(result)) for result in results}
    return len(pairs) > len({identity for identity, _ in pairs})


def _identity(result: Result) -> tuple[object, ...]:
    return tuple(setting(result, name) for name in _setting_names(result))


def identity_except(group: Group, *ignored: str) -> tuple[str, ...]:
    """All settings but the `ignored` ones: equal for groups that differ in nothing else."""
    return tuple(f"{name} {setting(group.first, name)}" for name in _setting_names(group.first) if name not in ignored)


def comparable_key(group: Group) -> tuple[str, str]:
    """Equal for groups that can be compared: those of the same workload and data."""
    return group.first.workload, group.first.data


def ranking_key(group: Group) -> tuple[str, ...]:
    """Equal for groups that can be ranked: comparable ones with the same stop rules.

    A run that trains longer reaches another loss and another throughput, whichever configuration it has.
    """
    return (*comparable_key(group), setting(group.first, "stop"))


def different_updates(group: Group, other: Group, name: str, other_name: str) -> str:
    """How the updates of two groups differ in examples or learning rate; empty if they do not.

    `one update: 100 examples at learning rate 0.1 (ps-async), 300 at 0.1 (ps-sync)`.
    """
    if not group.first.batch or _update(group) == _update(other):
        return ""
    own = _update_text(group, examples=" examples", learning_rate=" learning rate")
    return f"one update: {own} ({name}), {_update_text(other)} ({other_name})"


def _update(group: Group) -> tuple[int, float | None]:
    return group.first.examples_per_update, group.first.lr


def _update_text(group: Group, examples: str = "", learning_rate: str = "") -> str:
    count, lr = _update(group)
    return f"{count:,}{examples}" + ("" if lr is None else f" at{learning_rate} {lr:g}")


def setting(result: Result, name: str) -> str:
    """One setting as text; `-` if it is not set."""
    value = setting_value(result, name)
    if isinstance(value, list):
        # A fault contains spaces.
        return (", " if name == "fault" else " ").join(value) or "-"
    return "-" if value is None else str(value)


def setting_value(result: Result, name: str) -> Any:
    if name in _SWEEP_PARTS:
        return sweep_of(result)[_SWEEP_PARTS.index(name)]
    return getattr(result, name) if name in _FIELDS else result.settings.get(name, DEFAULTS.get(name))


def varied(groups: Sequence[Group]) -> list[str]:
    """The settings in which the groups differ; the sweep and its directory only if they differ in nothing else."""
    known = dict.fromkeys(name for group in groups for name in _setting_names(group.first))
    found = _differing(groups, known)
    if len({tuple(setting(group.first, name) for name in found) for group in groups}) == len(groups):
        return found
    return [*(_differing(groups, _SWEEP_PARTS) or [SWEEP]), *found]


def _differing(groups: Sequence[Group], names: Iterable[str]) -> list[str]:
    return [name for name in names if len({setting(group.first, name) for group in groups}) > 1]


def group_names(groups: Sequence[Group]) -> list[str]:
    """A distinct name for each group, in their order."""
    named_by = varied(groups) or _NAME_OF_ONE
    return configuration_names([_settings(group, named_by) for group in groups], [group.workers for group in groups])


def name_without(group: Group, groups: Sequence[Group], *ignored: str) -> str:
    """The name of a group from the settings in which groups differ, without the `ignored` ones."""
    named_by = [name for name in varied(groups) if name not in ignored]
    return configuration_name(_settings(group, named_by)) or group.first.title


def _settings(group: Group, names: Sequence[str]) -> dict[str, str]:
    return {name: setting(group.first, name) for name in names}


SWEEP = "sweep"
_SWEEP_PARTS = ("runs directory", SWEEP)
"""What `sweep_of` returns. Together they identify a sweep; they are not settings of a run."""
_FIELDS = ("workload", "size", "engine", "strategy", "layout", "batch", "seed", "hosts_kind", "data")
_SETTINGS = DEFAULTS.keys() - {*_FIELDS, "hosts"}


def _setting_names(result: Result) -> list[str]:
    # A run stored by an older version lacks newer settings: it had their defaults.
    return [*_FIELDS, *sorted({*result.settings, *_SETTINGS})]
