"""A recipe's runs become its table: observed, set compare_with_published the published figures, and remarked on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.recipes import notes
from paceline.recipes.comparison import TableComparison, compare_with_published
from paceline.recipes.observe import machine_cores, observe
from paceline.recipes.recipe import Recipe
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    recipe: Recipe
    full: bool
    made: TableComparison
    runs: tuple[str, ...]
    remarks: tuple[str, ...]
    """How it was measured, how far apart the figures are, which claims hold."""


def reproduction(recipe: Recipe, results: Sequence[Result], *, full: bool, changes: Mapping[str, Any]) -> Reproduction:
    """`changes` are what the user asked for otherwise than the recipe; the runs are in its `runs`."""
    runs = Path(changes["runs"])
    stored = {result.run: StoredRun(RunPaths(runs / result.run)) for result in results}
    good = [result for result in results if result.status == "ok"]
    made = compare_with_published(
        recipe, [seen for result in good for seen in observe(result, stored[result.run], recipe.per)]
    )
    mine = recipe.experiments(full=full, changes=changes)
    cores = max((machine_cores(run) for run in stored.values()), default=0)
    said = (
        *notes.machine(results, cores),
        *notes.asked(mine, recipe.experiments(full=True)),
        *notes.compared(recipe, made, full=full),
        *notes.claims(made),
    )
    return Reproduction(recipe=recipe, full=full, made=made, runs=tuple(stored), remarks=said)
