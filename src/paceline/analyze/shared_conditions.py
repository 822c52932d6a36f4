"""The conditions that all compared runs have in common: their settings, the machine and the software."""

from collections.abc import Callable, Iterator, Sequence

from paceline.analyze.repeats import Group, setting, varied
from paceline.present.labels import REPEATS_LEGEND, setting_label
from paceline.present.numbers import count
from paceline.spec.experiment import DEFAULTS
from paceline.store.paths import shipped_name
from paceline.store.result import Result

_FIRST_LINE: dict[str, Callable[[Result], str]] = {
    "workload": lambda result: shipped_name(result.workload) or result.workload,
    "size": lambda result: result.size,
    "engine": lambda result: result.engine,
    "strategy": lambda result: result.strategy,
    "layout": lambda result: f"'{result.layout}'",
    "batch": lambda result: f"batch {result.batch}" if result.batch else "",
    "hosts_kind": lambda result: f"{result.hosts_kind} hosts",
    "stop": lambda result: "until " + (" or ".join(result.settings.get("stop") or ()) or "it ends"),
}
"""The settings that are always shown, unless the runs differ in them."""
_NOT_SHOWN = {*_FIRST_LINE, "hosts", "record", "sample_hz", "seed", "repeat"}


def conditions(groups: Sequence[Group]) -> list[str]:
    """Lines: the settings that are always shown, others that are not the default, machine and software, the legend."""
    first, differing = groups[0].first, varied(groups)
    shown = [text(first) for name, text in _FIRST_LINE.items() if name not in differing]
    settings = [name for name in (*DEFAULTS, "fault") if name not in {*differing, *_NOT_SHOWN}]
    given = [f"{setting_label(name)} {setting(first, name)}" for name in settings if _is_given(first, name)]
    results = [result for group in groups for result in group.ok]
    legend = REPEATS_LEGEND if any(len(group.ok) > 1 for group in groups) else ""
    lines = [" · ".join(filter(None, parts)) for parts in (shown, given, _machine(results))]
    return [line for line in (*lines, legend) if line]


def _is_given(result: Result, name: str) -> bool:
    return result.settings.get(name, DEFAULTS.get(name)) != DEFAULTS.get(name) and setting(result, name) != "-"


def _machine(results: Sequence[Result]) -> Iterator[str]:
    """Cores, threads, versions and background load; nothing of what is not known or differs between the runs."""
    cores = {result.machine_cores for result in results}
    if len(cores) == 1 and cores != {0}:
        yield count(cores.pop(), "core")
        load = sorted(result.other_cores_mean for result in results)
        low, high = f"{load[0]:.1f}", f"{load[-1]:.1f}"
        yield f"background load {low if low == high else f'{low}–{high}'} cores"
    threads = {worker.threads for result in results for worker in result.workers}
    if len(threads) == 1 and (number := threads.pop()):
        yield f"{count(number, 'thread')} per worker"
    names = dict.fromkeys(name for result in results for name in result.versions)
    for name in names:
        found = {result.versions[name] for result in results if name in result.versions}
        if len(found) == 1 and (version := found.pop()):
            yield f"{name} {version}"
