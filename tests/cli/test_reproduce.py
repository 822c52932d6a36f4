"""paceline reproduce with real runs, each shortened to about a second."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import paceline
from paceline.analyze.machines import Machine, Machines, machines_of
from paceline.cli.main import run_command
from paceline.recipes.notes import machine_notes
from paceline.recipes.observe import observe
from paceline.recipes.recipe import recipes
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun

Capture = pytest.CaptureFixture[str]


def short_recipe(runs: Path, *options: str) -> list[str]:
    short = ["--engine", "torch", "--hosts", "local", "--stop", "steps=40", "--repeat", "1", "--runs", str(runs)]
    return ["reproduce", "report1-table3", *short, *options]


def test_call_without_a_recipe_lists_all_recipes(capsys: Capture) -> None:
    assert run_command(["reproduce"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in recipes())
    assert run_command(["reproduce", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [item["recipe"] for item in listed] == list(recipes())


def test_dry_run_shows_the_plan_and_starts_nothing(capsys: Capture, tmp_path: Path) -> None:
    assert run_command(short_recipe(tmp_path / "runs", "--dry-run")) == 0
    text = capsys.readouterr().out
    assert "ps0@h1, w0@h1, w1@h2, w2@h3" in text
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "colour=red"], "unknown option"),
        (["--format", "html"], "choose from md, text"),
        (["--engine", "cuda"], "unknown engine"),
        (["--stop", "whenever"], "not of the form kind=value"),
    ],
)
def test_invalid_option_is_refused_before_anything_starts(
    capsys: Capture, tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert run_command(short_recipe(tmp_path / "runs", *arguments)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_table_is_made_from_real_runs_and_reuses_them(capsys: Capture, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert run_command(short_recipe(runs, "--json")) == 0
    table = json.loads(capsys.readouterr().out)
    assert [row["Mode"] for row in table["rows"]] == ["Cluster", "Cluster2"]
    assert table["rows"][0]["Execution time (s)"]["theirs"] == 12.7
    stored = [json.loads((runs / run / "result.json").read_text()) for run in table["runs"]]
    assert [row["Execution time (s)"]["ours"] for row in table["rows"]] == [result["train_s"] for result in stored]
    assert [result["layout"] for result in stored] == ["pw w", "pw w w"]

    assert run_command(short_recipe(runs, "--format", "md")) == 0
    page = capsys.readouterr().out
    assert "steps=40 instead of steps=6000" in page
    assert "(12.7)" in page
    assert len(list(runs.iterdir())) == 2, "the second call makes no new runs"


def test_every_column_of_every_recipe_is_measured(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (result,) = paceline.run("logreg", strategy="ps-async", stop="steps=60", runs=str(runs))
    stored = StoredRun(RunPaths(runs / result.run))
    assert machines_of(stored).total_cores >= 1
    for recipe in recipes().values():
        fields = {key.field for key in recipe.keys} | {column.field for column in recipe.columns}
        records = observe(result, stored, recipe.per)
        assert records
        assert all(fields <= record.keys() for record in records), recipe.name


def test_background_load_and_failed_runs_are_noted(tmp_path: Path) -> None:
    (good,) = paceline.run("logreg", stop="steps=20", runs=str(tmp_path / "runs"))
    idle = replace(good, other_cores_mean=0.0)
    bad = replace(good, run="logreg-2", other_cores_mean=1.5, status="failed", reason="made up")
    two_cores = [Machines(by_host={"h1": Machine(cores=2, memory_mb=1e3)}, shared=True)]
    assert machine_notes([idle], two_cores) == [
        f"Measured here on {good.started_at[:10]}: 1 run, engine torch, local hosts on a machine with 2 cores, "
        f"data {good.data}.",
        "Background load: up to 0.00 cores.",
    ]
    _, busy, failed = machine_notes([idle, bad], two_cores)
    assert busy == "Background load: up to 1.50 cores; measure again on an idle machine."
    assert failed == "logreg-2 failed and is excluded: made up."


def test_workers_hosts_evaluations_and_time_bins_add_up(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (result,) = paceline.run("logreg", strategy="ps-sync", stop="steps=600", eval_every=200, batch=50, runs=str(runs))
    stored = StoredRun(RunPaths(runs / result.run))
    assert [record["worker"] for record in observe(result, stored, "worker")] == ["0", "1"]
    assert sum(float(record["worker_steps"] or 0) for record in observe(result, stored, "worker")) == 1_200
    assert [record["host"] for record in observe(result, stored, "host")] == ["h1", "h2"]
    points = observe(result, stored, "evaluation")
    assert [record["update"] for record in points] == ["200", "400", "600"]
    assert points[-1]["epoch"] == "1", "two workers, 50 each"
    assert points[-1]["loss"] == pytest.approx(result.final.loss)
    bins = [record for record in observe(result, stored, "time_bin") if record["host"] == "h1"]
    rates = [float(record["bin_updates_per_s"] or 0) for record in bins]
    assert sum(rates) / len(rates) == pytest.approx(600 / result.train_s, rel=0.25)
