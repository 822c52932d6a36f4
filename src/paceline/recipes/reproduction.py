"""Builds the reproduced table of a recipe from its runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.analyze.machines import machines_of
from paceline.recipes import notes
from paceline.recipes.comparison import TableComparison, compare_with_published
from paceline.recipes.observe import observe
from paceline.recipes.recipe import Recipe
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    recipe: Recipe
    full: bool
    table: TableComparison
    runs: tuple[str, ...]
    notes: tuple[str, ...]
    """How it was measured, how far our values are from the published ones, which claims hold."""


def reproduction(recipe: Recipe, results: Sequence[Result], *, full: bool, changes: Mapping[str, Any]) -> Reproduction:
    """`changes` are the settings that the user changed in the recipe; its `runs` is the directory of the runs."""
    directory = Path(changes["runs"])
    stored = {result.run: StoredRun(RunPaths(directory / result.run)) for result in results}
    observations = [
        observation
        for result in results
        if result.status == "ok"
        for observation in observe(result, stored[result.run], recipe.per)
    ]
    table = compare_with_published(recipe, observations)
    experiments = recipe.experiments(full=full, changes=changes)
    lines = (
        *notes.machine_notes(results, [machines_of(run) for run in stored.values()]),
        *notes.reduction_notes(experiments, recipe.experiments(full=True)),
        *notes.ratio_notes(recipe, table, full=full),
        *notes.claim_notes(table),
    )
    return Reproduction(recipe=recipe, full=full, table=table, runs=tuple(stored), notes=lines)
