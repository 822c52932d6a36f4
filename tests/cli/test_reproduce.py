"""paceline reproduce, for real where it makes runs: cut down to a second each."""

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


def cut_down(runs: Path, *more: str) -> list[str]:
    quick = ["--engine", "torch", "--hosts", "local", "--stop", "steps=40", "--runs", str(runs)]
    return ["reproduce", "report1-table3", *quick, *more]


def test_without_a_name_all_recipes_are_listed(capsys: Capture) -> None:
    assert run_command(["reproduce"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in recipes())
    assert run_command(["reproduce", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["recipe"] for one in told] == list(recipes())


def test_a_dry_run_shows_the_plan_and_starts_nothing(capsys: Capture, tmp_path: Path) -> None:
    assert run_command(cut_down(tmp_path / "runs", "--dry-run")) == 0
    shown = capsys.readouterr().out
    assert "ps0@h1, w0@h1, w1@h2, w2@h3" in shown
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "colour=red"], "unknown field"),
        (["--format", "html"], "choose from md, text"),
        (["--engine", "cuda"], "unknown engine"),
        (["--stop", "whenever"], "not understood"),
    ],
)
def test_slips_are_refused_before_anything_starts(
    capsys: Capture, tmp_path: Path, arguments: list[str], says: str
) -> None:
    assert run_command(cut_down(tmp_path / "runs", *arguments)) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_table_is_made_from_real_runs_once(capsys: Capture, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert run_command(cut_down(runs, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["Mode"] for row in told["rows"]] == ["Cluster", "Cluster2"]
    assert told["rows"][0]["Execution time (s)"]["theirs"] == 12.7
    stored = [json.loads((runs / run / "result.json").read_text()) for run in told["runs"]]
    assert [row["Execution time (s)"]["ours"] for row in told["rows"]] == [one["train_s"] for one in stored]
    assert [one["layout"] for one in stored] == ["pw w", "pw w w"]

    assert run_command(cut_down(runs, "--format", "md")) == 0
    page = capsys.readouterr().out
    assert "steps=40 instead of steps=6000" in page
    assert "(12.7)" in page
    assert len(list(runs.iterdir())) == 2, "the same runs serve again"


def test_every_column_of_every_recipe_is_measured(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (result,) = paceline.run("logreg", strategy="ps-async", stop="steps=60", runs=str(runs))
    stored = StoredRun(RunPaths(runs / result.run))
    assert machines_of(stored).total_cores >= 1
    for recipe in recipes().values():
        fields = {key.field for key in recipe.keys} | {column.field for column in recipe.columns}
        records = observe(result, stored, recipe.per)
        assert records
        assert all(fields <= seen.keys() for seen in records), recipe.name


def test_background_load_and_failed_runs_are_noted(tmp_path: Path) -> None:
    (good,) = paceline.run("logreg", stop="steps=20", runs=str(tmp_path / "runs"))
    idle = replace(good, other_cores_mean=0.0)
    bad = replace(good, run="logreg-2", other_cores_mean=1.5, status="failed", reason="made up")
    two_cores = [Machines(by_host={"h1": Machine(cores=2, memory_mb=1e3)}, shared=True)]
    assert machine_notes([idle], two_cores) == [
        f"Measured here: 1 run, engine torch, local hosts on a machine with 2 cores, data {good.data}."
    ]
    _, busy, failed = machine_notes([idle, bad], two_cores)
    assert busy == "Background load: up to 1.50 cores; measure again on an idle machine."
    assert failed == "logreg-2 failed and is excluded: made up."


def test_workers_hosts_evaluations_and_time_bins_add_up(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (result,) = paceline.run("logreg", strategy="ps-sync", stop="steps=600", eval_every=200, batch=50, runs=str(runs))
    stored = StoredRun(RunPaths(runs / result.run))
    assert [one["worker"] for one in observe(result, stored, "worker")] == ["0", "1"]
    assert sum(float(one["worker_steps"] or 0) for one in observe(result, stored, "worker")) == 1_200
    assert [one["host"] for one in observe(result, stored, "host")] == ["h1", "h2"]
    points = observe(result, stored, "evaluation")
    assert [one["update"] for one in points] == ["200", "400", "600"]
    assert points[-1]["epoch"] == "1", "two workers, 50 each"
    assert points[-1]["loss"] == pytest.approx(result.final.loss)
    bins = [one for one in observe(result, stored, "time_bin") if one["host"] == "h1"]
    rates = [float(one["bin_updates_per_s"] or 0) for one in bins]
    assert sum(rates) / len(rates) == pytest.approx(600 / result.train_s, rel=0.25)
