"""Notes on a reproduced table: how it was measured, how far it is from the published one, which claims hold."""

from collections.abc import Sequence

from paceline.analyze.difference import interval_text
from paceline.analyze.machines import Machines
from paceline.present.notes import highest_background_load
from paceline.present.numbers import MISSING, count, number
from paceline.present.thresholds import BACKGROUND_LOAD_CORES
from paceline.recipes.claims import CheckedClaim
from paceline.recipes.comparison import TableComparison, ratios
from paceline.recipes.recipe import Published, Recipe
from paceline.spec.experiment import OPTIONS, Experiment
from paceline.store.result import Result


def ratio_notes(recipe: Recipe, table: TableComparison, *, full: bool) -> list[str]:
    """The ratio of our values to the published ones by column, and the number of published rows without a run."""
    found = [f"{name} {_range(low, high)}" for name, (low, high) in ratios(recipe, table).items()]
    lines = [f"Our values relative to the published ones: {'; '.join(found)}."] if found else []
    if table.missing_rows:
        hint = "" if full else "; --full includes them"
        lines.append(f"Published rows without a run here: {table.missing_rows} of {len(recipe.rows)}{hint}.")
    return lines


def claim_notes(table: TableComparison) -> list[str]:
    return [f"Published claim: {claim.says}. {_claim_result(claim)}" for claim in table.claims]


def reduction_notes(small: Sequence[Experiment], full: Sequence[Experiment]) -> list[str]:
    """The settings of these runs that differ from the full form."""
    found: dict[str, None] = {}
    for ours, published in zip(small, full, strict=True):
        for option in OPTIONS:
            value, other = ours.value(option), published.value(option)
            if value != other and option not in ("name", "runs"):
                found[f"{option} {_setting_text(value)} instead of {_setting_text(other)}"] = None
    return [f"Different from the full form: {'; '.join(found)}."] if found else []


def own_choices(recipe: Recipe, experiments: Sequence[Experiment]) -> list[str]:
    """The values of these runs that the report does not state."""
    found: dict[str, None] = {}
    for option in recipe.ours:
        for experiment in experiments:
            found[f"{option} {_setting_text(experiment.value(option))}"] = None
    return [f"Chosen here, because the report does not state it: {'; '.join(found)}."] if found else []


def machine_notes(results: Sequence[Result], machines: Sequence[Machines]) -> list[str]:
    """Where the values were measured, whether the machine was busy, and which runs are excluded."""
    engines = ", ".join(dict.fromkeys(result.engine for result in results))
    hosts = ", ".join(dict.fromkeys(result.hosts_kind for result in results))
    data = ", ".join(dict.fromkeys(result.data for result in results))
    runs = count(len(results), "run")
    days = " to ".join(dict.fromkeys(sorted(result.started_at[:10] for result in results)[:: max(1, len(results) - 1)]))
    lines = [f"Measured here on {days}: {runs}, engine {engines}, {hosts} hosts on {_machines(machines)}, data {data}."]
    load = max((highest_background_load(result)[0] for result in results), default=0.0)
    advice = "; measure again on an idle machine" if load >= BACKGROUND_LOAD_CORES else ""
    lines.append(f"Background load: up to {number(load)} cores{advice}.")
    failed = [result for result in results if result.status != "ok"]
    return lines + [f"{result.run} {result.status} and is excluded: {result.reason}." for result in failed]


def _machines(machines: Sequence[Machines]) -> str:
    """The largest set of machines that a run used."""
    most = max(machines, key=lambda one: one.total_cores, default=None)
    if most is None or most.shared or len(most.by_host) < 2:
        return f"a machine with {most.total_cores if most else 0} cores"
    return f"{len(most.by_host)} machines with {most.total_cores} cores in total"


def published(value: Published | None) -> str:
    """A published value as the report printed it."""
    if value is None:
        return MISSING
    if isinstance(value, tuple):
        return f"{value[0]:g}–{value[1]:g}"
    return value if isinstance(value, str) else f"{value:,.10g}"


def _claim_result(claim: CheckedClaim) -> str:
    if claim.outcome == "not tested":
        return f"Not tested: {claim.why}."
    values = [pair.value for pair in claim.pairs]
    details = [f"ratio {_range(min(values), max(values))}"]
    if len(values) == 1 and claim.pairs[0].is_known:
        details.append(f"95 % CI {interval_text(claim.pairs[0])}")
    if 0 < claim.contradicted < len(values):
        details.append(f"{claim.contradicted} of {len(values)} pairs contradict it")
    return f"{claim.outcome.capitalize()} ({'; '.join(details)}){f': {claim.why}' if claim.why else ''}."


def _range(low: float, high: float) -> str:
    """`0.50`, or `0.50–2.00`."""
    return "–".join(dict.fromkeys((number(low), number(high))))


def _setting_text(value: object) -> str:
    items = value if isinstance(value, tuple) else (value,)
    return ", ".join("the default" if item is None else str(item) for item in items)
