"""Every recipe is a valid spec, and its published values form a table that our runs can be compared with."""

from importlib.resources import files
from pathlib import Path

import pytest

from paceline.available import catalog
from paceline.cli.main import run_command
from paceline.errors import SpecError
from paceline.plan.place import RunPlan, place
from paceline.present.thresholds import ENOUGH_REPEATS
from paceline.recipes.recipe import NONE, Recipe, find, recipes, reports
from paceline.spec.experiment import OPTIONS
from paceline.spec.load import experiment, load_toml
from paceline.spec.sweep import expand

FORMS = pytest.mark.parametrize("full", [False, True], ids=["small", "full"])
ALL = pytest.mark.parametrize("recipe", recipes().values(), ids=lambda recipe: recipe.name)
# Rows per evaluation or time bin are known only after a run.
KNOWN_ROWS = pytest.mark.parametrize(
    "recipe",
    [recipe for recipe in recipes().values() if recipe.per in ("run", "worker", "host")],
    ids=lambda recipe: recipe.name,
)


def plans(recipe: Recipe, *, full: bool) -> list[RunPlan]:
    choices = catalog()
    return [place(spec, choices) for part in recipe.experiments(full=full) for spec in expand(part)]


def expected_rows(recipe: Recipe, *, full: bool) -> list[dict[str, str]]:
    """The keys of the rows, from the plans alone."""
    found = []
    for plan in plans(recipe, full=full):
        spec = plan.spec
        run = {
            "layout": str(plan.layout), "batch": str(spec.batch), "strategy": spec.strategy, "size": plan.size,
            "examples": str(spec.examples or "all"), "model": plan.title, "activation": str(spec.activation or "-"),
            "steps_per_epoch": str(spec.steps_per_epoch or "-"), "stop": " ".join(map(str, spec.stop)),
            "engine": spec.engine, "lineage": spec.lineage or "none",
        }  # fmt: skip
        workers = [{"worker": str(task.index)} for task in plan.workers]
        hosts = [{"host": host} for host in plan.layout.hosts]
        for more in {"worker": workers, "host": hosts}.get(recipe.per, [{}]):
            known = run | more
            found.append({key.name: key.labels.get(known[key.field], known[key.field]) for key in recipe.keys})
    return found


@ALL
@FORMS
def test_every_run_of_a_recipe_can_be_placed(recipe: Recipe, full: bool) -> None:
    made = plans(recipe, full=full)
    assert len({plan.spec for plan in made}) == len(made)
    names = {part.name for part in recipe.experiments(full=full)}
    assert None not in names, "runs without a name cannot be resumed or shared between recipes"


@ALL
def test_the_small_form_is_no_larger_than_the_full_one(recipe: Recipe) -> None:
    assert len(plans(recipe, full=False)) <= len(plans(recipe, full=True))


@ALL
def test_a_recipe_file_is_a_spec_for_paceline_run(recipe: Recipe) -> None:
    path = Path(str(files("paceline.recipes") / f"{recipe.name}.toml"))
    assert experiment(load_toml(path)) == recipe.experiments(full=False)[0]


@ALL
def test_published_values_form_a_table(recipe: Recipe) -> None:
    width, names = len(recipe.keys), [key.name for key in recipe.keys]
    assert len({row[:width] for row in recipe.rows}) == len(recipe.rows)
    assert recipe.across is None or recipe.across in names
    for row in recipe.rows:
        assert len(row) == width + len(recipe.columns)
        for value in row[width:]:
            low, high = value if isinstance(value, tuple) else (value, value)
            assert value == NONE or (
                isinstance(low, float | int) and isinstance(high, float | int) and 0 <= low <= high
            )


@KNOWN_ROWS
def test_the_full_form_has_a_run_for_every_published_row(recipe: Recipe) -> None:
    made = {tuple(row.values()) for row in expected_rows(recipe, full=True)}
    for row in recipe.rows:
        assert tuple(f"{word:g}" if isinstance(word, float) else word for word in row[: len(recipe.keys)]) in made


@KNOWN_ROWS
@FORMS
def test_claims_are_about_rows_that_have_runs(recipe: Recipe, full: bool) -> None:
    made = expected_rows(recipe, full=full)
    for claim in recipe.claims:
        assert any(claim.of.items() <= row.items() and {**row, **claim.than} in made for row in made), claim.says


@ALL
@FORMS
def test_claims_are_tested_with_enough_repeats(recipe: Recipe, full: bool) -> None:
    if recipe.claims:
        for part in recipe.experiments(full=full):
            assert part.repeat * len(part.axes.get("seed", (1,))) >= ENOUGH_REPEATS


@ALL
def test_values_chosen_here_are_options_that_the_recipe_sets(recipe: Recipe) -> None:
    given = {*recipe.spec, *recipe.full, *(option for part in recipe.also for option in part)}
    assert set(recipe.ours) <= given & OPTIONS.keys()


@ALL
def test_claims_are_about_columns_and_keys_of_the_table(recipe: Recipe) -> None:
    keys = {key.name for key in recipe.keys}
    for claim in recipe.claims:
        assert claim.column in {column.name for column in recipe.columns}
        assert claim.of.keys() <= keys
        assert claim.than.keys() <= keys
        assert claim.of != claim.than


def test_every_figure_a_recipe_covers_is_found_by_its_own_name() -> None:
    names = [name for recipe in recipes().values() for name in recipe.names]
    assert len(set(names)) == len(names)
    assert [recipe.name for recipe in find("report1-figure8")] == ["report1-figure6"]
    assert {recipe.report for recipe in find("report4")} == {"report4"}
    assert len(find("all")) == len(recipes())


def test_every_report_has_recipes_and_a_description() -> None:
    assert {recipe.report for recipe in recipes().values()} == set(reports()) == {f"report{n}" for n in range(1, 6)}


def test_recipes_of_one_report_share_runs() -> None:
    table3, figure6 = (plans(recipes()[name], full=False) for name in ("report1-table3", "report1-figure6"))
    assert {plan.spec for plan in table3} & {plan.spec for plan in figure6}


def test_an_unknown_recipe_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SpecError, match="report1-table4"):
        find("report1-tabel4")
    assert run_command(["reproduce", "report1-tabel4"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "did you mean" in said.err
