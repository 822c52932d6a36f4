"""The output of `--json` keeps its keys and their types; keys may be added."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from contracts.golden import STORED_RUNS, assert_contains, golden, json_lines, paceline
from report.stored import store_run


@pytest.fixture(scope="module")
def listed(runs: Path) -> dict[str, dict[str, Any]]:
    """The objects that `ls --json` prints, by run."""
    return {result["run"]: result for result in json_lines(paceline("ls", "--runs", runs, "--json"))}


def test_run_prints_one_object_with_all_keys(
    new_run: subprocess.CompletedProcess[str], listed: dict[str, dict[str, Any]]
) -> None:
    (printed,) = json_lines(new_run)
    # Only a run with a fault has items in `faults` and `incidents`.
    assert_contains("result.json", golden("result.json"), [printed, listed["faulty-1"]])


def test_show_prints_the_object_that_run_printed(runs: Path, new_run: subprocess.CompletedProcess[str]) -> None:
    assert json_lines(paceline("show", "new-1", "--runs", runs, "--json")) == json_lines(new_run)


def test_links_between_hosts_have_all_keys(tmp_path: Path) -> None:
    measured = [{"sender": "h1", "receiver": "h2", "mb_s": 12.0, "rtt_s": 0.0002, "rtt_min_s": 0.0001}]
    lost = [{"sender": "h2", "receiver": "h1", "error": "connection reset by peer"}]
    event = {"event": "links", "t_s": 0.05, "pairs": measured + lost, "measured_at": 1e9, "seconds": 1.0}
    run = store_run(tmp_path, steps=20, events=[event])
    (result,) = json_lines(paceline("show", run.id, "--runs", tmp_path, "--json"))
    assert_contains("links.json", golden("links.json"), [result])
    assert result["links"] == [
        {"from": "h1", "to": "h2", "mb_s": 12.0, "rtt_ms": 0.2, "rtt_min_ms": 0.1},
        {"from": "h2", "to": "h1", "mb_s": None, "rtt_ms": None, "rtt_min_ms": None},
    ]


def test_ls_prints_the_object_of_every_run(listed: dict[str, dict[str, Any]]) -> None:
    stored = [listed[directory.name] for directory in STORED_RUNS.iterdir()]
    assert_contains("result.json", golden("result.json"), stored)


def test_compare_prints_one_object_with_all_keys(runs: Path, failed_run: subprocess.CompletedProcess[str]) -> None:
    assert failed_run.returncode == 1  # Such a run is listed in `left_out`.
    completed = paceline("compare", "modes", "failed-1", "--fail-if-slower", "5%", "--runs", runs, "--json")
    (comparison,) = json_lines(completed)
    assert_contains("compare.json", golden("compare.json"), [comparison])


def test_reproduce_lists_recipes_with_all_keys() -> None:
    recipes = json_lines(paceline("reproduce", "--json"))
    assert_contains("recipe.json", golden("recipe.json"), recipes)
