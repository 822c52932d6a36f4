"""Stored runs in Python: results with their tables, comparisons and reports."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from contracts.golden import STORED_RUNS
from paceline.errors import SpecError, StoreError, UsageError


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED_RUNS, tmp_path / "runs"))


def test_load_gives_the_results_of_a_sweep_in_order(runs: Path) -> None:
    results = paceline.load("modes", "faulty-1", runs=runs)
    assert [result.run for result in results] == ["modes-1", "modes-2", "modes-3", "faulty-1"]
    assert isinstance(results[1:], paceline.Results)
    assert paceline.load(runs / "modes-2")[0].run == "modes-2"


def test_result_is_the_stored_one(runs: Path) -> None:
    (result,) = paceline.load("modes-1", runs=runs)
    stored = json.loads((runs / "modes-1" / "result.json").read_text())
    shown = result.to_dict()
    keys = ("updates", "train_s", "final", "key", "status")
    assert {key: shown[key] for key in keys} == {key: stored[key] for key in keys} | {"final": shown["final"]}
    assert shown["final"]["loss"] == stored["final"]["loss"]


def test_tables_are_read_when_they_are_used(runs: Path) -> None:
    (result,) = paceline.load("faulty-1", runs=runs)
    assert {"task", "host", "step", "kind"} <= set(result.steps.columns)
    assert set(result.samples["host"]) == {host.host for host in result.hosts}
    assert result.events.columns == ["t_s", "event", "task", "host", "details"]
    killed = result.events.filter(event="fault")
    assert json.loads(killed["details"][0])
    assert result.scan_steps().collect().height == result.steps.height
    (broken,) = paceline.load("modes-1", runs=runs)
    (runs / "modes-1" / "steps.parquet").write_bytes(b"not a table")
    with pytest.raises(StoreError, match="run modes-1 is damaged"):
        _ = broken.steps


def test_several_results_have_one_table_and_one_frame(runs: Path) -> None:
    results = paceline.load("modes", runs=runs)
    assert dict(results.steps.group_by("run").len().iter_rows()) == {r.run: r.steps.height for r in results}
    assert results.samples.columns[0] == results.events.columns[0] == "run"
    frame = results.to_frame()
    assert frame["run"].to_list() == [result.run for result in results]
    assert frame["workers.w0.steps"].to_list() == [result.workers[0].steps for result in results]
    assert frame["verdict.cause"].to_list() == [result.verdict.cause for result in results]
    assert results[0].to_frame().height == 1
    assert paceline.Results().to_frame().is_empty()
    assert paceline.Results().steps.is_empty()


def test_notebook_shows_what_the_terminal_shows(runs: Path) -> None:
    results = paceline.load("modes", runs=runs)
    page = results[0]._repr_html_()
    assert page.startswith("<pre")
    assert "bottleneck" in page
    assert "modes-1" in str(results[0])
    assert "strategy" in results._repr_html_()
    assert repr(results[0]).startswith("<run modes-1: logreg")


def test_html_escapes_what_a_run_says(runs: Path) -> None:
    file = runs / "modes-1" / "result.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps(stored | {"data": "<script>alert(1)</script>\x1b[31m"}))
    page = paceline.load("modes-1", runs=runs)[0]._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page


def test_compare_takes_results_and_names(runs: Path) -> None:
    results = paceline.load("modes", runs=runs)
    by_result, by_name = results.compare(), paceline.compare("modes", runs=runs)
    assert by_result.to_dict() == by_name.to_dict()
    frame = by_name.to_frame()
    assert {"configuration", "runs", "updates_per_s"} <= set(frame.columns)
    assert {"figure", "ratio", "low", "high", "outcome"} <= set(by_name.differences.columns)
    assert by_name._repr_html_().startswith("<pre")
    other_base = paceline.compare(results, base="modes-3", runs=runs)
    assert {d["base"] for d in other_base.to_dict()["differences"]} != {
        d["base"] for d in by_name.to_dict()["differences"]
    }
    assert paceline.compare(results[0], results[2], base=results[2]).to_dict()["groups"]


def test_report_is_written_for_results(runs: Path, tmp_path: Path) -> None:
    results = paceline.load("modes", runs=runs)
    written = paceline.write_report(results, out=tmp_path / "page.html", format=["html", "md"])
    assert [path.suffix for path in written] == [".html", ".md"]
    assert "modes-1" in written[0].read_text()


def test_wrong_requests_are_refused_in_one_line(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unknown run 'nodes': did you mean"):
        paceline.load("nodes", runs=runs)
    with pytest.raises(SpecError, match="no run is given"):
        paceline.load(runs=runs)
    with pytest.raises(SpecError, match="a run is given as int"):
        paceline.load(3, runs=runs)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="no runs in"):
        paceline.load("latest", runs=tmp_path / "none")
    with pytest.raises(SpecError, match="unknown format 'pdf'"):
        paceline.write_report("modes", format="pdf", runs=runs)
    with pytest.raises(UsageError, match="is not among the runs to compare"):
        paceline.load("modes", runs=runs).compare(base="faulty-1")
    with pytest.raises(SpecError, match="no run is given"):
        paceline.compare(runs=runs)


def test_damaged_run_is_left_out_with_a_warning(runs: Path) -> None:
    (runs / "modes-2" / "result.json").write_text("{")
    with pytest.warns(UserWarning, match="left out: run modes-2 is damaged"):
        assert len(paceline.load("modes", runs=runs)) == 2


def test_import_loads_nothing_and_the_version_is_there() -> None:
    code = (
        "import sys, paceline; print(paceline.__version__, len([m for m in sys.modules if m.startswith('paceline')]))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert shown[1] == "1"
    assert shown[0] == paceline.__version__
