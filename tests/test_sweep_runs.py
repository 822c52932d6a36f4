"""Sweeps of real runs: runs are reused by the name of the sweep, and no run directory is used twice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import paceline
from paceline.analyze.repeats import group_repeats
from paceline.cli.main import run_command
from paceline.present.numbers import number
from report.stored import store_run


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_sweep_with_the_same_name_makes_only_missing_runs(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    first = paceline.run("logreg", batch=[50, 100], stop="steps=20", name="sweep", runs=runs)
    again = paceline.run("logreg", batch=[50, 100, 200], stop="steps=20", name="sweep", runs=runs)
    assert [result.run for result in again[:2]] == [result.run for result in first] == ["sweep-1", "sweep-2"]
    assert again[2].run == "sweep-3"
    assert sorted(entry.name for entry in Path(runs).iterdir()) == ["sweep-1", "sweep-2", "sweep-3"]


def test_runs_with_other_stop_rules_are_added_to_a_sweep_with_a_warning(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    store_run(runs, name="sweep", steps=20, strategy="single", layout="w", stop=["steps=300"])
    made = run_cli("run", "logreg", "--stop", "steps=20", "--name", "sweep", "--runs", str(runs), "--json")
    (line,) = (line for line in made.stderr.splitlines() if line.startswith("warning: "))
    assert "the sweep sweep has runs with other settings (stop was steps=300 and is steps=20" in line
    compared = run_cli("compare", "sweep", "--runs", str(runs))
    # The data differs, too, since the first run was not really made: that is a reason of its own.
    assert "the runs end by different rules (steps=300; steps=20)" in " ".join(compared.stdout.split())
    again = run_cli("run", "logreg", "--stop", "steps=20", "--name", "sweep", "--runs", str(runs), "--json")
    assert "warning" not in again.stderr


def test_sweep_does_not_reuse_runs_of_a_sweep_with_a_longer_name(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    paceline.run("logreg", stop="steps=20", name="sizes-big", runs=runs)
    (result,) = paceline.run("logreg", stop="steps=20", name="sizes", runs=runs)
    assert result.run == "sizes-1"


def test_concurrent_readers_of_an_unfinished_run_do_not_conflict(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    (result,) = paceline.run("logreg", stop="steps=20", runs=runs)
    Path(result.dir, "result.json").unlink()
    command = [sys.executable, "-m", "paceline", "show", "logreg-1", "--runs", runs, "--json"]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [reader.communicate(timeout=60) for reader in readers]
    # A reader either gets the whole result, or reports that another process is writing it.
    assert any(out for out, _ in outputs)
    assert all(json.loads(out)["updates"] == 20 if out else "still in progress" in err for out, err in outputs)


def test_failed_run_is_repeated_in_a_new_directory(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (first,) = paceline.run("logreg", stop="steps=20", name="sweep", runs=str(runs))
    stored = json.loads((runs / "sweep-1" / "result.json").read_text())
    (runs / "sweep-1" / "result.json").write_text(json.dumps({**stored, "status": "failed", "reason": "made up"}))
    (second,) = paceline.run("logreg", stop="steps=20", name="sweep", runs=str(runs))
    assert (first.run, second.run, second.status) == ("sweep-1", "sweep-2", "ok")


def test_runs_with_different_numbers_of_examples_are_not_repeats(tmp_path: Path) -> None:
    results = paceline.run("logreg", examples=[1_000, 2_000], stop="steps=10", runs=str(tmp_path / "runs"))
    assert [result.settings["examples"] for result in results] == [1_000, 2_000]
    assert len(group_repeats(results)) == 2


def test_without_a_name_every_run_is_new(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    ids = [paceline.run("logreg", stop="steps=5", runs=runs)[0].run for _ in range(2)]
    assert ids == ["logreg-1", "logreg-2"]


def test_json_output_is_one_object_per_run_and_nothing_else(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    completed = run_cli("run", "logreg", "--batch", "50,100", "--stop", "steps=20", "--runs", runs, "--json")
    assert completed.returncode == 0
    objects = [json.loads(line) for line in completed.stdout.splitlines()]
    assert [item["batch"] for item in objects] == [50, 100]
    shown = run_cli("show", objects[0]["run"], "--runs", runs, "--json")
    assert json.loads(shown.stdout) == objects[0]
    assert "until steps=20" in completed.stderr


def test_run_can_be_repeated_from_its_stored_spec(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    (first,) = paceline.run("logreg", strategy="ps-sync", stop=["steps=20", "loss=0.01"], lr=0.2, seed=7, runs=runs)
    again = run_cli("run", f"{first.dir}/spec.toml", "--runs", runs, "--json")
    result = json.loads(again.stdout)
    assert (result["strategy"], result["layout"], result["seed"]) == ("ps-sync", "pw w", 7)
    assert result["final"]["loss"] == first.final.loss


def test_result_and_run_directory_have_all_documented_keys_and_files(tmp_path: Path) -> None:
    (result,) = paceline.run("logreg", strategy="ps-async", stop="steps=50", runs=str(tmp_path / "runs"))
    stored = json.loads((Path(result.dir) / "result.json").read_text())
    assert stored.keys() >= {
        "run", "workload", "engine", "strategy", "layout", "batch", "seed", "repeat", "status", "reason", "tainted",
        "updates", "examples", "train_s", "total_s", "first_step_s", "updates_per_s", "examples_per_s", "final",
        "reached", "workers", "hosts", "verdict", "incidents", "dir",
    }  # fmt: skip
    assert stored["final"].keys() >= {"loss", "accuracy"}
    assert stored["reached"].keys() == {"rule", "at_s", "at_update"}
    assert stored["workers"][0].keys() >= {"task", "host", "steps", "phases", "staleness"}
    assert stored["workers"][0]["staleness"].keys() == {"mean", "p95", "max"}
    traffic = {
        f"{direction}_{unit}_{kind}"
        for direction in ("rx", "tx")
        for unit in ("mb_s", "packets_s")
        for kind in ("mean", "max")
    }
    host = stored["hosts"][0]
    assert host.keys() >= {"host", "cpu_cores_mean", "cpu_cores_max", "busiest_core_max", "memory_mb_max", "disk"}
    assert host["external"].keys() == host["loopback"].keys() == traffic
    assert host["disk"].keys() == {"read_mb", "write_mb"}
    assert stored["verdict"].keys() >= {"cause", "where", "share", "evidence", "remedy"}
    assert {entry.name for entry in Path(result.dir).iterdir()} == {
        "spec.toml", "result.json", "steps.parquet", "samples.parquet", "events.jsonl", "logs", "tensorboard",
        "checkpoints",
    }  # fmt: skip


def test_two_controllers_with_the_same_name_use_two_directories(tmp_path: Path) -> None:
    arguments = ["run", "logreg", "--stop", "steps=20", "--name", "same", "--runs", str(tmp_path / "runs"), "--json"]
    controllers = [
        subprocess.Popen([sys.executable, "-m", "paceline", *arguments], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = [json.loads(controller.communicate(timeout=120)[0]) for controller in controllers]
    assert {result["status"] for result in results} == {"ok"}
    assert len({result["dir"] for result in results}) == 2


def test_tables_show_the_values_of_the_results(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    results = paceline.run(
        "logreg", strategy="ps-sync", batch=[50, 100], stop="steps=30", repeat=2, name="pair", runs=runs
    )
    listed = run_cli("ls", "--runs", runs).stdout
    assert all(result.run in listed for result in results)
    compared = run_cli("compare", "pair", "--runs", runs).stdout
    assert "median [min–max] over repeats" in compared
    assert "ps-sync" in compared
    assert "30 30" in compared
    medians = [median(result.updates_per_s for result in results if result.batch == batch) for batch in (50, 100)]
    assert all(number(value) in compared for value in medians)
    comparison = json.loads(run_cli("compare", "pair", "--runs", runs, "--json").stdout)
    assert [group["figures"]["updates_per_s"]["median"] for group in comparison["groups"]] == medians
    assert "batch 100" in comparison["differences"][0]["sentence"]
    shown = run_cli("show", "pair-1", "--runs", runs).stdout
    for word in ("compute", "w0", "h2", "bottleneck", "share this machine", "test loss"):
        assert word in shown


def test_help_lists_the_commands_and_is_little_slower_than_its_command_line_library() -> None:
    shown = run_cli("--help").stdout
    for command in ("run", "ls", "show", "compare", "workloads", "doctor"):
        assert command in shown
    # CPU times of child processes by turns, the best of each: both change with the load of the machine alike.
    turns = [(_cpu_s("-m", "paceline", "--help"), _cpu_s("-c", "import typer")) for _ in range(5)]
    help_s, library_s = map(min, zip(*turns, strict=True))
    assert help_s < 4 * library_s


def test_help_imports_no_large_library() -> None:
    listing = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "paceline", "--help"], capture_output=True, text=True, check=True
    )
    imported = {line.rsplit("|", 1)[-1].strip() for line in listing.stderr.splitlines()}
    assert "paceline.cli.main" in imported
    assert not imported & {"numpy", "polars", "torch", "tensorflow", "pyspark", "ray", "matplotlib", "starlette"}


def _cpu_s(*arguments: str) -> float:
    start = os.times()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    end = os.times()
    return end.children_user + end.children_system - start.children_user - start.children_system


def test_workloads_and_doctor_list_engines_and_hosts() -> None:
    assert run_command(["workloads"]) == 0
    completed = run_cli("doctor")
    assert completed.returncode == 0
    assert "engine torch" in completed.stdout
    assert "hosts local" in completed.stdout
