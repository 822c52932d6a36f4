"""Short names of configurations: what sets each apart from the others."""

from collections.abc import Sequence

from paceline.analyze.repeats import Group, setting, varied
from paceline.store.result import Result

_WHEN_ALONE = ("engine", "strategy", "layout", "batch")
_SPEAKS_FOR_ITSELF = ("workload", "engine", "strategy")


def titles(groups: Sequence[Group]) -> list[str]:
    """One for each group, in their order."""
    apart = varied(groups) or _WHEN_ALONE
    return [" ".join(part(group.first, name) for name in apart) for group in groups]


def part(result: Result, name: str) -> str:
    value = setting(result, name)
    if name == "layout":
        return f"'{value}'"
    return value if name in _SPEAKS_FOR_ITSELF else f"{name} {value}"


def without(group: Group, groups: Sequence[Group], *left_out: str) -> str:
    """A group's name but for some of what sets it apart."""
    parts = [part(group.first, name) for name in varied(groups) if name not in left_out]
    return " ".join(parts) or group.first.title
