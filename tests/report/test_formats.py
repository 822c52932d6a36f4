import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from paceline.cli.main import run_command
from paceline.report.build import build
from paceline.report.export import as_csv, as_markdown
from paceline.report.write import write_report
from paceline.store.paths import RunPaths
from report.stored import result_of, store_run


def test_several_formats_are_written_next_to_each_other(
    runs: Path, sweep: list[RunPaths], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "paper.html"
    assert run_command(["report", "sweep", "--runs", str(runs), "--out", str(out), "--format", "html,md,csv,json"]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / f"paper.{kind}") for kind in ("html", "md", "csv", "json")
    ]


def test_a_report_of_many_runs_says_how_many_are_done(sweep: list[RunPaths], tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    write_report("sweep", sweep, tmp_path / "sweep.html", ["html"], lambda *progress: seen.append(progress))
    read, charted, others = seen[: len(sweep)], seen[len(sweep) : -1], seen[-1:]
    assert read == [("reading runs", number, len(sweep)) for number in range(len(sweep))]
    assert charted == [("making charts of runs", number, len(charted)) for number in range(len(charted))]
    assert charted
    assert [what for what, _, _ in others] == ["predicting other settings"]


def test_the_name_of_the_file_comes_from_the_runs(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs.parent)
    store_run(runs)
    assert run_command(["report", "latest", "--format", "json"]) == 0
    assert capsys.readouterr().out.strip() == "made-1-report.json"


def test_json_is_a_list_of_what_show_prints(
    runs: Path, sweep: list[RunPaths], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "all.json"
    assert run_command(["report", "sweep", "--runs", str(runs), "--out", str(out), "--format", "json"]) == 0
    capsys.readouterr()
    run_command(["show", "sweep-3", "--runs", str(runs), "--json"])
    shown = capsys.readouterr().out.strip()
    assert shown in out.read_text()
    assert json.loads(out.read_text())[2] == json.loads(shown)


def test_csv_has_a_row_per_run_and_a_column_per_value(sweep: list[RunPaths]) -> None:
    results = build("sweep", sweep).results
    rows = list(csv.DictReader(StringIO(as_csv(results))))
    assert len(rows) == len(sweep)
    for row, result in zip(rows, results, strict=True):
        assert float(row["examples_per_s"]) == result.examples_per_s
        assert float(row["final.loss"]) == result.final.loss
        assert float(row["workers.w0.phases.compute"]) == result.workers[0].phases["compute"]
        assert float(row["hosts.h1.external.rx_mb_s_mean"]) == result.hosts[0].external.rx_mb_s_mean
    assert rows[0]["workers.w2.steps"] == ""


def test_names_do_not_become_spreadsheet_formulas(runs: Path) -> None:
    (row,) = csv.DictReader(StringIO(as_csv(build("x", [store_run(runs, data="=1+1")]).results)))
    assert row["data"] == "'=1+1"


def test_markdown_has_best_configurations_bottlenecks_and_tables(sweep: list[RunPaths]) -> None:
    text = as_markdown(build("sweep", sweep))
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[:3] == ["# sweep", "## Best configuration per goal", "## Bottleneck by configuration"]
    assert headings[-1] == "### Hosts"
    widths = {
        line.count("|") for line in text.split("### Steps per worker")[1].split("###")[0].splitlines() if "|" in line
    }
    assert len(widths) == 1


def test_names_are_escaped_in_markdown(runs: Path) -> None:
    text = as_markdown(build("x", [store_run(runs, end=("failed", "<b> | *x* [y](z)"))]))
    assert r"&lt;b> \| \*x\* \[y\](z)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["made-1", "--format", "pdf"], "unknown format 'pdf'"),
        (["made-1", "--format", ","], "--format is empty"),
        (["made-9"], "unknown run 'made-9'"),
        (["made-1", "--out", "no/such/place.html"], "directory no/such does not exist"),
        (["made-1", "--out", "."], "is a directory"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_run(runs)
    assert run_command(["report", *arguments, "--runs", str(runs)]) == 2
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1


def test_what_was_not_measured_of_a_run_without_a_step_is_empty_in_csv(tmp_path: Path) -> None:
    paths = store_run(tmp_path, steps=0, end=("aborted", "interrupted by the user"))
    (row,) = csv.DictReader(StringIO(as_csv([result_of(paths)])))
    measured = [name for name in row if name.startswith(("hosts.", "updates_per_s", "examples_per_s", "train_s"))]
    assert len(measured) > 10
    assert [name for name in measured if row[name] in ("0", "0.0")] == []
    assert row["updates"] == "0"
