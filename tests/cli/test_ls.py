"""`paceline ls` fits the terminal, filters runs, and shows runs that are being made."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analyze.made import made
from cli.test_compare import store
from paceline.analyze.listing import STATUSES, finished_run, parse_since
from paceline.cli.main import run_command
from paceline.errors import SpecError
from paceline.store.paths import RunPaths
from paceline.store.tags import write_tags
from paceline.terminal.run_list import RunList
from report.stored import leave_killed_run

LONG_ID = "a-sweep-with-a-name-of-48-characters-as-allowed-12345"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Four runs, each two days after the one before; the newest was started an hour ago."""
    started = datetime.now(UTC) - timedelta(hours=1)
    results = [
        made(
            "first-1",
            tags=("baseline", "tuned"),
            strategy="ps-async",
            started_at=(started - timedelta(days=6)).isoformat(),
        ),
        made("first-2", engine="tensorflow", started_at=(started - timedelta(days=4)).isoformat()),
        made(
            "other-1",
            tags=("before",),
            status="failed",
            reason="x",
            started_at=(started - timedelta(days=2)).isoformat(),
        ),
        made(LONG_ID, workload="lenet", size="small", to_loss_s=0.38, started_at=started.isoformat()),
    ]
    for result in results:
        store(tmp_path, result)
    write_tags(RunPaths(tmp_path / "other-1"), ["baseline"])
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], runs: Path, *options: str) -> list[str]:
    """The ids that are listed with these options; text and JSON must agree."""
    assert run_command(["ls", "--runs", str(runs), *options]) == 0
    ids = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert run_command(["ls", "--runs", str(runs), "--json", *options]) == 0
    assert [json.loads(line)["run"] for line in capsys.readouterr().out.splitlines()] == ids
    return ids


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ("", ["first-1", "first-2", "other-1", LONG_ID]),
        ("--limit 2", ["other-1", LONG_ID]),
        ("--status failed,aborted", ["other-1"]),
        ("--strategy ps-async", ["first-1"]),
        ("--engine tensorflow", ["first-2"]),
        ("--workload lenet", [LONG_ID]),
        ("--workload lenet:small,logreg --limit 1", [LONG_ID]),
        ("--name first", ["first-1", "first-2"]),
        ("--name first --limit 1", ["first-2"]),
        ("--since 2h", [LONG_ID]),
        ("--tag baseline", ["first-1", "other-1"]),
        ("--tag tuned,unknown", ["first-1"]),
        ("--tag unknown,before", []),
        ("--since 3d", ["other-1", LONG_ID]),
        ("--since 2020-01-01", ["first-1", "first-2", "other-1", LONG_ID]),
    ],
)
def test_filters_and_limit_select_runs_the_newest_last(
    capsys: pytest.CaptureFixture[str], runs: Path, options: str, ids: list[str]
) -> None:
    assert listed(capsys, runs, *options.split()) == ids


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 160])
def test_no_id_is_split_and_no_line_is_longer_than_the_terminal(width: int) -> None:
    rows = [finished_run(made(LONG_ID, to_loss_s=1.0)), finished_run(made("short-1", status="aborted", reason="x"))]
    console = Console(width=width)
    with console.capture() as output:
        console.print(RunList(rows), crop=False)
    lines = output.get().splitlines()
    assert [line.split()[0] for line in lines] == ["run", LONG_ID, "short-1"]
    needed = len(LONG_ID) + 2 + len("aborted")
    assert all(len(line.rstrip()) <= max(width, needed) for line in lines)
    if width >= 160:
        columns = ["run", "started", "status", "workload", "engine", "strategy", "layout", "speed", "bottleneck"]
        assert lines[0].split() == columns
        assert "1.00 s to loss 0.5" in lines[1]


def test_a_run_in_progress_is_listed_as_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = leave_killed_run(tmp_path, steps=2, strategy="ps-async", layout="pw w")
    with FileLock(paths.lock):
        assert run_command(["ls", "--runs", str(tmp_path), "--status", "running"]) == 0
        captured = capsys.readouterr()
    assert "killed-1" in captured.out
    assert "running" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--status fine", "unknown status 'fine'"),
        ("--since yesterday", "--since 'yesterday' is not understood: write an age such as 30m"),
        ("--limit 0", "--limit"),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], runs: Path, options: str, message: str
) -> None:
    assert run_command(["ls", "--runs", str(runs), *options.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_refused_in_one_line(text: str) -> None:
    try:
        assert parse_since(text, datetime.now(UTC)).tzinfo
    except SpecError as error:
        assert str(error).isprintable()


@given(st.integers(0, 999_999), st.sampled_from("smhdw"))
def test_an_age_is_before_now(number: int, unit: str) -> None:
    now = datetime(2026, 11, 17, tzinfo=UTC)
    try:
        assert parse_since(f"{number}{unit}", now) <= now
    except SpecError:
        assert unit in "dw"  # Before the first year.


def test_every_status_of_a_result_can_be_filtered() -> None:
    from paceline.cli.run import EXIT

    assert set(EXIT) < set(STATUSES)
