"""What is to be said about a table made again: how far apart the figures are, what holds, what was asked otherwise."""

from collections.abc import Sequence

from paceline import units
from paceline.recipes.comparison import CheckedClaim, TableComparison, ratios
from paceline.recipes.recipe import NONE, Published, Recipe
from paceline.spec.experiment import OPTIONS, Experiment
from paceline.store.result import Result

BUSY_CORES = 0.25
"""Cores used by other programs from which on it is worth a remark."""


def compared(recipe: Recipe, made: TableComparison, *, full: bool) -> list[str]:
    """Ours as a multiple of theirs, figure by figure; and the rows that were not made."""
    found = [f"{name} {_span(low, high)}" for name, (low, high) in ratios(recipe, made).items()]
    lines = [f"Ours as a multiple of the report's: {'; '.join(found)}."] if found else []
    if made.left_out:
        hint = "" if full else ": --full makes them"
        lines.append(f"{made.left_out} of the report's {len(recipe.rows)} rows are not among these runs{hint}.")
    return lines


def claims(made: TableComparison) -> list[str]:
    return [f"The report finds: {one.says}. {_verdict(one)}" for one in made.tested]


def asked(small: Sequence[Experiment], full: Sequence[Experiment]) -> list[str]:
    """What these runs asked for otherwise than the full form does."""
    found: dict[str, None] = {}
    for mine, whole in zip(small, full, strict=True):
        for option in OPTIONS:
            value, other = mine.value(option), whole.value(option)
            if value != other and option not in ("name", "runs"):
                found[f"{option} {_shown(value)} instead of {_shown(other)}"] = None
    return [f"Smaller than the report's own size: {'; '.join(found)}."] if found else []


def machine(results: Sequence[Result], cores: int) -> list[str]:
    """Where the figures come from, and whether anything else was going on there."""
    engines = ", ".join(dict.fromkeys(result.engine for result in results))
    hosts = ", ".join(dict.fromkeys(result.hosts_kind for result in results))
    data = ", ".join(dict.fromkeys(result.data for result in results))
    count = "1 run" if len(results) == 1 else f"{len(results)} runs"
    lines = [f"Measured by {count} of {engines} on a machine of {cores} cores, hosts {hosts}, data {data}."]
    busy = max((result.other_cores_mean for result in results), default=0.0)
    if busy >= BUSY_CORES:
        lines.append(
            f"Other programs used up to {units.short(busy)} of its cores meanwhile: measure again when it is idle."
        )
    failed = [result for result in results if result.status != "ok"]
    return lines + [f"{result.run} did not end well and is left out: {result.reason}." for result in failed]


def published(value: Published | None) -> str:
    """A figure as the report printed it."""
    if value is None:
        return NONE
    if isinstance(value, tuple):
        return f"{value[0]:g} to {value[1]:g}"
    return value if isinstance(value, str) else f"{value:,.10g}"


def _verdict(one: CheckedClaim) -> str:
    if one.holds is None:
        return "Not tested by these runs."
    return f"Here: {'yes' if one.holds else 'no'}, {_span(min(one.ratios), max(one.ratios))} times."


def _span(low: float, high: float) -> str:
    """`0.5`, or `0.5 to 2`."""
    return " to ".join(dict.fromkeys((units.short(low), units.short(high))))


def _shown(value: object) -> str:
    items = value if isinstance(value, tuple) else (value,)
    return ", ".join("the default" if item is None else str(item) for item in items)
