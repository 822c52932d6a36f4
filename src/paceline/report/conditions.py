"""The conditions of compared runs, as labels and values: everything that a reader needs to judge the numbers."""

from collections.abc import Callable, Iterable, Sequence

from paceline.analyze.repeats import Group, setting
from paceline.page.blocks import Facts
from paceline.present.labels import setting_label
from paceline.present.numbers import MISSING, count
from paceline.spec.experiment import DEFAULTS
from paceline.store.result import Result

_ALWAYS = ("workload", "engine", "strategy", "layout", "batch", "hosts_kind", "link", "cpus", "stop", "seed")
"""Settings that are shown even if they have their default."""
_HIDDEN = {*_ALWAYS, "hosts", "record", "sample_hz", "repeat", "size", "fault", "script"}
_MOST_VALUES = 4


def conditions_block(groups: Sequence[Group]) -> Facts:
    """Settings, machine and software of all runs; of a setting with several values, its values."""
    results = [result for group in groups for result in group.results]
    rows = [(setting_label(name), _values(map(_setting(name), results))) for name in _ALWAYS]
    rows += [
        (setting_label(name), _values(setting(result, name) for result in results))
        for name in DEFAULTS
        if name not in _HIDDEN and any(_is_given(result, name) for result in results)
    ]
    rows += [
        ("data", _values(result.data for result in results)),
        ("machine", _machine(results)),
        ("background load", _background(results)),
        ("threads", _values(str(w.threads) for r in results for w in r.workers if w.threads) or MISSING),
        ("versions", _versions(results)),
        ("repeats", _values(count(len(group.results), "run") for group in groups) + " per configuration"),
    ]
    return Facts(title="Conditions", rows=[(label, value) for label, value in rows if value not in ("", MISSING)])


def _setting(name: str) -> Callable[[Result], str]:
    """How a setting is shown; hosts without a limit are said to have none."""

    def text(result: Result) -> str:
        value = setting(result, name)
        return "no limit" if name in ("link", "cpus") and value == MISSING else value

    return text


def _values(values: Iterable[str]) -> str:
    found = list(dict.fromkeys(value for value in values if value and value != MISSING))
    more = f" and {len(found) - _MOST_VALUES} more" if len(found) > _MOST_VALUES else ""
    return ", ".join(found[:_MOST_VALUES]) + more


def _is_given(result: Result, name: str) -> bool:
    return result.settings.get(name, DEFAULTS.get(name)) != DEFAULTS.get(name) and setting(result, name) != MISSING


def _machine(results: Sequence[Result]) -> str:
    cores = _values(count(result.machine_cores, "core") for result in results if result.machine_cores)
    shared = {result.one_machine for result in results}
    where = "one machine for all hosts" if shared == {True} else "a machine for each host" if shared == {False} else ""
    return ", ".join(filter(None, (cores, where)))


def _background(results: Sequence[Result]) -> str:
    loads = sorted(result.other_cores_mean for result in results if result.train_s > 0)
    if not loads:
        return MISSING
    low, high = f"{loads[0]:.1f}", f"{loads[-1]:.1f}"
    return f"{low if low == high else f'{low}–{high}'} cores"


def _versions(results: Sequence[Result]) -> str:
    names = dict.fromkeys(name for result in results for name in result.versions)
    return ", ".join(
        f"{name} {versions}"
        for name in names
        if (versions := _values(result.versions.get(name) or "" for result in results))
    )
