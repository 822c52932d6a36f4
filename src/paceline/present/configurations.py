"""Names of configurations: each is called by the settings in which it differs from the others."""

from collections.abc import Mapping, Sequence

from paceline.present.labels import setting_label

Settings = Mapping[str, str]
"""Settings of one configuration by name, as text, in the order in which they are shown. `-` is not set."""
_VALUE_IS_ENOUGH = ("runs directory", "sweep", "workload", "engine", "strategy", "param")
"""Settings whose value says what it is: `ps-sync`, not `strategy ps-sync`; a param is `bs=32`."""


def configuration_names(configurations: Sequence[Settings], workers: Sequence[int]) -> list[str]:
    """One distinct name per configuration, from settings in which they differ; `workers` is their number in each.

    The layout is left out if the names are distinct without it and all have the same number of workers: it then only
    follows from the strategy (`pw w` for a parameter server, `w w` for all-reduce).
    """
    without_layout = [
        {name: value for name, value in settings.items() if name != "layout"} for settings in configurations
    ]
    distinct = len({tuple(settings.items()) for settings in without_layout}) == len(configurations)
    redundant = distinct and len(configurations) > 1 and len(set(workers)) == 1
    shown = without_layout if redundant else configurations
    return [configuration_name(settings) for settings in shown]


def configuration_name(settings: Settings) -> str:
    """Settings that are not set are left out, unless none is set."""
    parts = [_part(name, value) for name, value in settings.items() if not _is_unset(name, value)]
    return " ".join(parts or [_part(name, value) for name, value in settings.items()])


def _is_unset(name: str, value: str) -> bool:
    return name != "fault" and value in (("0",) if name == "batch" else ("", "-"))


def _part(name: str, value: str) -> str:
    if name == "layout":
        return f"'{value}'"
    if name == "stop":
        return f"until {value}"
    if name == "fault":
        return "without faults" if value == "-" else f"with '{value}'"
    return value if name in _VALUE_IS_ENOUGH else f"{setting_label(name)} {value}"
