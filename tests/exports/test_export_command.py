"""`paceline export`: the text for assistants, and requests that are refused."""

import shutil
from pathlib import Path

import msgspec
import pytest

import paceline as package
from contracts.golden import STORED_RUNS, paceline
from exports.trace_schema import read_trace
from paceline.analyze.load import load_result
from paceline.cli.main import run_command
from paceline.errors import SpecError
from paceline.exports.assistant_text import MOST_CHARACTERS, assistant_text
from paceline.store.paths import RunPaths
from paceline.store.result import Result

FAULTY = STORED_RUNS / "faulty-1"


@pytest.fixture
def result() -> Result:
    return load_result(RunPaths(FAULTY))


def test_text_says_what_an_assistant_needs(result: Result) -> None:
    text = assistant_text([result])
    assert "logreg on torch, strategy ps-sync, layout 'pw w' (2 workers)" in text
    assert "command: paceline run logreg" in text
    assert f"evidence: {result.verdict.evidence[0]}" in text
    assert "fault kill w1 at 0s" in text
    assert "paceline run logreg --engine torch --strategy ps-async" in text
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        f"## {name}" for name in ("What was run", "Conditions", "Measured", "Bottleneck", "Cautions", "Next")
    ]


def test_text_of_several_runs_has_their_comparison() -> None:
    text = assistant_text([load_result(RunPaths(STORED_RUNS / f"modes-{number}")) for number in (1, 2, 3)])
    assert "3 runs in 3 configurations" in text
    assert "## Best for each goal" in text
    assert "significance unknown" in text
    assert len(text) <= MOST_CHARACTERS


def test_text_of_a_large_cluster_stays_short(result: Result) -> None:
    result.workers = [msgspec.structs.replace(result.workers[0], task=f"w{number}") for number in range(64)]
    result.hosts = [msgspec.structs.replace(result.hosts[0], host=f"h{number}") for number in range(64)]
    result.verdict.evidence = ["x" * 5_000] * 50
    text = assistant_text([result])
    assert len(text) <= MOST_CHARACTERS
    assert "… 56 more workers" in text
    assert "## Next" in text


def test_command_writes_text_and_traces(tmp_path: Path) -> None:
    text = paceline("export", "modes-1", "--format", "llm", "--runs", STORED_RUNS)
    assert text.returncode == 0, text.stderr
    assert text.stdout.startswith("Measured by Paceline")
    target = tmp_path / "trace.json"
    made = paceline("export", "faulty-1", "--format", "perfetto", "--out", target, "--runs", STORED_RUNS)
    assert (made.returncode, made.stdout) == (0, f"{target}\n"), made.stderr
    assert read_trace(target)["otherData"]["run"] == "faulty-1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("modes-1 --format pdf", "unknown format 'pdf': choose from llm, mlflow, perfetto, wandb"),
        ("nodes --format llm", "unknown run 'nodes': did you mean modes-3 or modes-2 or modes-1?"),
        ("modes-1 --format perfetto --from 5s --to 2s", "--to 2s is not after --from 5s: give a later time"),
        ("modes-1 --format perfetto --from soon", "duration 'soon' is not understood"),
        ("modes-1 --format llm --from 1s", "--from and --to are for the format perfetto: remove them"),
        ("modes --format perfetto --out one.json", "--out is one file, but 3 runs are given"),
        ("modes-1 --format perfetto --out missing/one.json", "directory missing does not exist"),
        ("modes-1 --format llm --out .", "--out . is a directory; give the name of a file"),
    ],
)
def test_wrong_request_is_refused_in_one_line(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["export", *arguments.split(), "--runs", str(STORED_RUNS)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_damaged_run_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(FAULTY, tmp_path / "runs" / "faulty-1")
    (tmp_path / "runs" / "faulty-1" / "steps.parquet").write_bytes(b"PAR1 not a table")
    target = tmp_path / "trace.json"
    options = ("--format", "perfetto", "--out", target, "--runs", tmp_path / "runs")
    assert run_command(["export", "faulty-1", *map(str, options)]) == 2
    assert "run faulty-1 is damaged" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "runs"]


def test_export_from_python(tmp_path: Path, result: Result) -> None:
    (path,) = package.export(result, format="perfetto", out=tmp_path / "trace.json")
    assert read_trace(Path(path))["traceEvents"]
    (text,) = package.export("faulty-1", format="llm", runs=STORED_RUNS)
    assert text == assistant_text([result]).rstrip()
    with pytest.raises(SpecError, match="unknown format 'pdf'"):
        package.export(result, format="pdf")
