"""`paceline.reproduce`: published experiments, made again and compared with the published values."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from paceline.api.make_runs import make_runs
from paceline.api.progress import choose_progress
from paceline.api.render import as_html, as_text
from paceline.api.results import Results
from paceline.errors import SpecError, unknown
from paceline.recipes.recipe import find
from paceline.recipes.reproduction import Reproduction, reproduction
from paceline.spec.experiment import AXES, OPTIONS
from paceline.terminal.reproduction import record, view

_CHANGEABLE = {*AXES, "stop", "repeat"} - {"workload"}


class ReproducedTable:
    """Our values of a published table or figure beside the published ones."""

    def __init__(self, reproduced: Reproduction, results: Results) -> None:
        self._reproduced = reproduced
        self.results = results
        """The runs of which the table was made."""

    @property
    def notes(self) -> tuple[str, ...]:
        """How it was measured, how far our values are from the published ones, and which claims hold."""
        return self._reproduced.notes

    def to_dict(self) -> dict[str, Any]:
        """The object that `paceline reproduce --json` prints."""
        return dict(record(self._reproduced))

    def to_frame(self) -> pl.DataFrame:
        """The results of the runs, a row for each."""
        return self.results.to_frame()

    def __repr__(self) -> str:
        return f"<{self._reproduced.recipe.name}: {self._reproduced.recipe.title}>"

    def __str__(self) -> str:
        return as_text(view(self._reproduced))

    def _repr_html_(self) -> str:
        return as_html(view(self._reproduced))


def reproduce(
    recipe: str,
    *,
    full: bool = False,
    changes: Mapping[str, Any] | None = None,
    runs: str | Path = OPTIONS["runs"].default,
    pictures: str | Path | None = None,
    check: bool = True,
    progress: bool | None = None,
) -> list[ReproducedTable]:
    """Make the runs of recipes that are not stored yet, and compare their values with the published ones.

    Args:
        recipe: A recipe (report1-table4), a report for all of its recipes (report1), or all.
        full: Use the sizes of the report instead of sizes that take a few minutes.
        changes: Options to change in the recipe, e.g. {"hosts": "netns", "stop": "steps=100"}.
        runs: Directory that holds the runs.
        pictures: Directory for pictures of each recipe, as PNG and SVG.
        check: Raise RunFailed if a run fails or diverges.
        progress: Whether to show the progress of the runs. Default: in a notebook, and if stderr is a terminal.
    """
    changed = dict(changes or {})
    for name in changed:
        if name not in _CHANGEABLE:
            raise SpecError(unknown("option", name, _CHANGEABLE))
    changed["runs"] = str(runs)
    if pictures is not None:
        from paceline.pictures.draw import check_available

        check_available()
    tables = []
    for each in find(recipe):
        results = make_runs(
            each.experiments(full=full, changes=changed),
            check=check,
            progress=choose_progress(progress),
            warn_of_conditions=False,  # The experiments of one recipe differ on purpose.
        )
        made = reproduction(each, results, full=full, changes=changed)
        if pictures is not None:
            _write_pictures(made, results, Path(pictures))
        tables.append(ReproducedTable(made, results))
    return tables


def _write_pictures(made: Reproduction, results: Sequence[Any], directory: Path) -> None:
    from paceline.pictures.recipe_figures import write_pictures

    write_pictures(made, results, directory)
