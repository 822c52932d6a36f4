"""Short names of configurations: what sets each apart from the others."""

from collections.abc import Sequence

from paceline.analyze.repeats import Group, setting, varied
from paceline.store.result import Result

_WHEN_ALONE = ("engine", "strategy", "layout", "batch")
_SPEAKS_FOR_ITSELF = ("workload", "engine", "strategy")


def titles(groups: Sequence[Group]) -> list[str]:
    """One for each group, in their order."""
    apart = varied(groups) or _WHEN_ALONE
    return [_joined(group, apart) or " ".join(part(group.first, name) for name in apart) for group in groups]


def part(result: Result, name: str) -> str:
    value = setting(result, name)
    if name == "layout":
        return f"'{value}'"
    return value if name in _SPEAKS_FOR_ITSELF else f"{name} {value}"


def without(group: Group, groups: Sequence[Group], *left_out: str) -> str:
    """A group's name but for some of what sets it apart."""
    return _joined(group, [name for name in varied(groups) if name not in left_out]) or group.first.title


def _joined(group: Group, names: Sequence[str]) -> str:
    """What was not asked for goes without saying."""
    return " ".join(part(group.first, name) for name in names if not _says_nothing(group.first, name))


def _says_nothing(result: Result, name: str) -> bool:
    return setting(result, name) in (("0",) if name == "batch" else ("", "-"))
