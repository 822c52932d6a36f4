"""paceline reproduce: repeat the experiments of published reports and show our results beside the published ones."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, TEXT, DryRun, Runs, given_fields, spec_flags

if TYPE_CHECKING:
    from paceline.recipes.recipe import Recipe
    from paceline.recipes.reproduction import Reproduction
    from paceline.spec.experiment import Experiment
    from paceline.store.result import Result


@spec_flags("engine", "hosts", "stop", "repeat", overrides="the recipe's")
def reproduce(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE",
            help="Recipes (report1-table4), a report for all of its recipes (report1), or all.",
            autocompletion=completion.recipes,
        ),
    ] = None,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="Use the sizes of the report instead of sizes that take a few minutes.")
    ] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar=TEXT, help="Any other option, e.g. batch=64,128.")
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    format_: Annotated[str, typer.Option("--format", metavar=TEXT, help="text or md (Markdown).")] = "text",
    pictures: Annotated[
        str | None, typer.Option(metavar=TEXT, help="Directory for pictures of each recipe, as PNG and SVG.")
    ] = None,
    dry_run: DryRun = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per recipe on stdout.")] = False,
    **flags: Any,
) -> int:
    """Reproduce tables and figures of published reports.

    Without a RECIPE, list the recipes.
    """
    from paceline.errors import SpecError, unknown
    from paceline.recipes.recipe import find, reports
    from paceline.spec.load import parse_assignments
    from paceline.terminal.reproduction import report_heading

    if format_ not in ("text", "md"):
        raise SpecError(unknown("format", format_, ("text", "md")))
    if not recipe:
        return _list_recipes(json)
    if pictures is not None:
        from paceline.pictures.draw import check_available

        check_available()
    selected = list({match.name: match for name in recipe for match in find(name)}.values())
    changes: dict[str, Any] = {"runs": runs, **parse_assignments(set_ or []), **given_fields(flags)}
    if dry_run:
        return _show_plans(selected, full, changes)
    codes, reports_with_heading = [], set()
    for each in selected:
        if format_ == "md" and len(selected) > 1 and each.report not in reports_with_heading and not json:
            reports_with_heading.add(each.report)
            print(report_heading(each.report, reports()[each.report]))
        codes.append(_reproduce(each, _Form(full, changes, json, format_, pictures)))
    return max(codes)


def _list_recipes(json: bool) -> int:
    from msgspec.json import encode

    from paceline.cli.console import output
    from paceline.recipes.recipe import recipes
    from paceline.spec.sweep import expand
    from paceline.terminal.reproduction import recipe_list

    all_recipes = list(recipes().values())
    run_counts = [
        [sum(len(expand(experiment)) for experiment in recipe.experiments(full=full)) for full in (False, True)]
        for recipe in all_recipes
    ]
    if json:
        for recipe, (small, full) in zip(all_recipes, run_counts, strict=True):
            fields = {"recipe": recipe.name, "names": recipe.names, "title": recipe.title}
            print(encode({**fields, "runs": small, "full_runs": full}).decode())
    else:
        output().print(recipe_list(all_recipes, run_counts))
    return 0


def _show_plans(selected: "list[Recipe]", full: bool, changes: dict[str, Any]) -> int:
    from paceline import pipeline
    from paceline.cli.console import output
    from paceline.terminal.plan import plan_table

    for recipe in selected:
        experiments = recipe.experiments(full=full, changes=changes)
        plans = [plan for experiment in experiments for plan in pipeline.plan(experiment)]
        output().print(f"{recipe.name}: {recipe.title}")
        output().print(plan_table(plans))
    return 0


class _Form(NamedTuple):
    """How the user wants recipes to be made and shown."""

    full: bool
    changes: dict[str, Any]
    json: bool
    format_: str
    pictures: str | None


def _reproduce(recipe: "Recipe", form: _Form) -> int:
    from msgspec.json import encode

    from paceline.cli.console import output
    from paceline.cli.run import exit_code
    from paceline.errors import printable
    from paceline.recipes.reproduction import reproduction
    from paceline.terminal.reproduction import markdown, record, view

    results = _run(recipe.experiments(full=form.full, changes=form.changes))
    outcome = reproduction(recipe, results, full=form.full, changes=form.changes)
    if form.pictures is not None:
        _write_pictures(outcome, results, form.pictures)
    if form.json:
        print(encode(record(outcome)).decode(), flush=True)
    elif form.format_ == "md":
        print(printable(markdown(outcome)), flush=True)
    else:
        output().print(view(outcome))
    return exit_code(results)


def _write_pictures(outcome: "Reproduction", results: "list[Result]", directory: str) -> None:
    from pathlib import Path

    from paceline.cli.console import messages
    from paceline.pictures.recipe_figures import write_pictures

    for path in write_pictures(outcome, results, Path(directory)):
        messages().print(f"wrote {path}", markup=False, soft_wrap=True)


def _run(experiments: "list[Experiment]") -> "list[Result]":
    """Make the runs that are not stored yet; an experiment that cannot work is refused before the first run starts."""
    from paceline.cli.console import messages
    from paceline.run_all import run_all
    from paceline.terminal import live
    from paceline.terminal.working import working

    console = messages()
    return run_all(
        experiments,
        view=partial(live.show, console),
        on_result=lambda *_: None,
        on_message=lambda line: console.print(line, markup=False),
        show_work=partial(working, console),
        warn_of_conditions=False,  # The experiments of one recipe differ on purpose.
    )
