"""Builds the reproduced table of a recipe from its runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.analyze.machines import machines_of
from paceline.recipes import notes
from paceline.recipes.claims import fields_without_test
from paceline.recipes.comparison import TableComparison, compare_with_published
from paceline.recipes.observe import DEPENDS_ON_PROGRESS, observe
from paceline.recipes.recipe import Recipe
from paceline.spec.experiment import Experiment
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
    experiments, full_form = recipe.experiments(full=full, changes=changes), recipe.experiments(full=True)
    table = compare_with_published(recipe, observations, _untested(recipe, experiments, full_form))
    lines = (
        *notes.machine_notes(results, [machines_of(run) for run in stored.values()]),
        *notes.reduction_notes(experiments, full_form),
        *notes.own_choices(recipe, experiments),
        *notes.ratio_notes(recipe, table, full=full),
        *notes.claim_notes(table),
    )
    return Reproduction(recipe=recipe, full=full, table=table, runs=tuple(stored), notes=lines)


def _untested(recipe: Recipe, ours: Sequence[Experiment], full_form: Sequence[Experiment]) -> dict[str, str]:
    fields = fields_without_test(ours, full_form, {column.field for column in recipe.columns})
    if recipe.per == "evaluation" and fields.keys() == DEPENDS_ON_PROGRESS:
        return {}  # Rows are compared at the same update, whenever the run stopped.
    return fields
