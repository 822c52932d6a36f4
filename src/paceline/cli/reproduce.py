"""paceline reproduce: the tables and figures of published reports, made again."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, DryRun, Runs, given, spec_flags

if TYPE_CHECKING:
    from paceline.recipes.recipe import Recipe
    from paceline.spec.experiment import Experiment
    from paceline.store.result import Result


@spec_flags("engine", "hosts", "stop", overrides="the recipe's")
def reproduce(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(
            help="Recipes (report1-table4), all of a report (report1), or all.", autocompletion=completion.recipes
        ),
    ] = None,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="The report's own sizes instead of a few minutes' worth.")
    ] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Any other field, e.g. batch=64,128.")] = None,
    runs: Runs = DEFAULT_RUNS,
    format_: Annotated[str, typer.Option("--format", help="text, or md: Markdown.")] = "text",
    dry_run: DryRun = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per recipe on stdout.")] = False,
    **flags: Any,
) -> int:
    """Make tables and figures of published reports again, ours beside theirs; without a RECIPE, list them."""
    from paceline.errors import SpecError, unknown
    from paceline.recipes.recipe import find, reports
    from paceline.spec.load import assignments
    from paceline.terminal.reproduction import report_heading

    if format_ not in ("text", "md"):
        raise SpecError(unknown("format", format_, ("text", "md")))
    if not recipe:
        return _list(json)
    wanted = list({one.name: one for name in recipe for one in find(name)}.values())
    changes: dict[str, Any] = {"runs": runs, **assignments(set_ or []), **given(flags)}
    if dry_run:
        return _plans(wanted, full, changes)
    codes, headed = [], set()
    for one in wanted:
        if format_ == "md" and len(wanted) > 1 and one.report not in headed and not json:
            headed.add(one.report)
            print(report_heading(one.report, reports()[one.report]))
        codes.append(_reproduce(one, full, changes, json, format_))
    return max(codes)


def _list(json: bool) -> int:
    from msgspec.json import encode

    from paceline.cli.console import output
    from paceline.recipes.recipe import recipes
    from paceline.spec.sweep import expand
    from paceline.terminal.reproduction import recipe_list

    known = list(recipes().values())
    counts = [
        [sum(len(expand(part)) for part in one.experiments(full=full)) for full in (False, True)] for one in known
    ]
    if json:
        for one, (small, full) in zip(known, counts, strict=True):
            about = {"recipe": one.name, "names": one.names, "title": one.title, "runs": small, "full_runs": full}
            print(encode(about).decode())
    else:
        output().print(recipe_list(known, counts))
    return 0


def _plans(wanted: "list[Recipe]", full: bool, changes: dict[str, Any]) -> int:
    from paceline import pipeline
    from paceline.cli.console import output
    from paceline.terminal.plan import plan_table

    for one in wanted:
        parts = one.experiments(full=full, changes=changes)
        plans = [plan for part in parts for plan in pipeline.plan(part)]
        output().print(f"{one.name}: {one.title}")
        output().print(plan_table(plans))
    return 0


def _reproduce(one: "Recipe", full: bool, changes: dict[str, Any], json: bool, format_: str) -> int:
    from msgspec.json import encode

    from paceline.cli.console import output
    from paceline.cli.run import EXIT
    from paceline.recipes.reproduction import reproduction
    from paceline.terminal.reproduction import markdown, record, view

    results = _make(one.experiments(full=full, changes=changes))
    made = reproduction(one, results, full=full, changes=changes)
    if json:
        print(encode(record(made)).decode(), flush=True)
    elif format_ == "md":
        print(markdown(made), flush=True)
    else:
        output().print(view(made))
    return max(EXIT[result.status] for result in results)


def _make(parts: "list[Experiment]") -> "list[Result]":
    """The runs that are not there yet; what cannot work is refused before the first one starts."""
    from paceline import pipeline
    from paceline.cli.console import messages
    from paceline.terminal import live

    console, results = messages(), []
    for part in parts:
        pipeline.plan(part)
    for part in parts:
        results += pipeline.run(
            part,
            view=lambda plan, number, of: live.show(console, plan, number, of),
            on_result=lambda *_: None,
            say=lambda line: console.print(line, markup=False),
        )
        if results[-1].status == "aborted":
            break
    return results
