"""The conditions of runs: settings that decide how results may be compared, such as the stop rules and the seed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from paceline.analyze.repeats import setting_value
from paceline.spec.experiment import AXES, IDENTIFYING
from paceline.store.result import Result

_COMPARED = ("workload", "size", "engine", "strategy", "layout", "batch")
"""Settings that sweeps are made to compare, so that runs with other values of them may be added one by one."""
_OTHER_NAMES = {"hosts": "hosts_kind"}
"""Names of options that have another name in a result."""


def changed_conditions(
    results: Sequence[Result], specs: Sequence[Mapping[str, Any]], lists: Collection[str]
) -> dict[str, tuple[str, str]]:
    """The conditions in which new runs (`specs`) differ from the earlier runs of their sweep: old and new values.

    A setting that is a list of the new runs (`lists`), or had several values in the earlier ones, is not a condition.
    Stop rules and faults, which cannot be lists, are always conditions.
    """
    changed = {}
    for name in dict.fromkeys(name for spec in specs for name in spec):
        if name in _COMPARED or name == "repeat" or name not in IDENTIFYING or name in lists:
            continue
        old = _texts(setting_value(result, _OTHER_NAMES.get(name, name)) for result in results)
        new = _texts(spec.get(name) for spec in specs)
        if len(old) == 1 and not new <= old if name in AXES else old and old != new:
            changed[name] = (" or ".join(sorted(old)), " or ".join(sorted(new)))
    return changed


def _texts(values: Iterable[Any]) -> set[str]:
    return {
        " ".join(map(str, value)) or "-" if isinstance(value, list | tuple) else "-" if value is None else str(value)
        for value in values
    }
