"""Runs of different runs directories may have the same id, and a run directory may be copied or renamed."""

import json
import shutil
from pathlib import Path

import pytest

from paceline.cli.main import run_command
from paceline.store.paths import find_runs
from report.stored import store_run


@pytest.fixture(autouse=True)
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the runs directories `before` and `after`, in each a run `logreg-1`."""
    for name, pace in (("before", 1.0), ("after", 2.0)):
        store_run(tmp_path / name, name="logreg", steps=20, pace=pace)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_with_the_same_id_are_compared_with_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["compare", "before/logreg-1", "after/logreg-1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [group["name"] for group in record["groups"]] == ["before", "after"]
    assert [group["runs"] for group in record["groups"]] == [["before/logreg-1"], ["after/logreg-1"]]
    assert {difference["base"] for difference in record["differences"]} == {"before"}
    # Sweeps can be named in other directories, too, and the baseline is found by its directory.
    assert run_command(["compare", "before/logreg", "after/logreg", "--base", "after/logreg-1"]) == 0
    assert "Compared with baseline after\n" in capsys.readouterr().out


def test_a_report_contains_both_runs_with_the_same_id(work_directory: Path) -> None:
    out = str(work_directory / "report")
    formats = ("html", "md", "csv", "json")
    command = ["report", "before/logreg-1", "after/logreg-1", "--out", out, "--format", ",".join(formats)]
    assert run_command(command) == 0
    texts = {suffix: (work_directory / f"report.{suffix}").read_text() for suffix in formats}
    assert len(json.loads(texts["json"])) == len(texts["csv"].splitlines()) - 1 == 2
    for directory in ("before", "after"):
        assert f"{directory}/logreg-1" in texts["html"]
        assert directory in texts["md"]


@pytest.mark.parametrize("name", ["copy-of-logreg", "renamed-7"])
def test_a_copied_or_renamed_run_is_shown_under_its_new_name(
    work_directory: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("before/logreg-1", f"before/{name}")
    assert run_command(["show", name, "--runs", "before", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"], shown["dir"]) == (name, f"before/{name}")
    assert run_command(["report", name, "--runs", "before", "--out", str(work_directory / "page.html")]) == 0
    assert name in Path("page.html").read_text()


def test_a_run_that_is_named_twice_is_one_run(work_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["logreg-1", "logreg", "before/logreg-1", str(work_directory / "before" / "logreg-1")]
    assert len(find_runs(Path("before"), names)) == 1
    monkeypatch.chdir("before/logreg-1")
    assert [paths.id for paths in find_runs(Path("runs"), ["./"])] == ["logreg-1"]
