"""`paceline rm` deletes runs and nothing else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from analyze.made import made
from cli.test_compare import store
from contracts.golden import DEADLINE_S
from paceline.cli.main import run_command


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("sweep-1", "sweep-2", "other-1"):
        store(runs, made(name))
    return runs


def left(runs: Path) -> set[str]:
    return {entry.name for entry in runs.iterdir()}


def test_runs_and_sweeps_are_deleted(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["rm", "sweep", "--yes", "--runs", str(runs)]) == 0
    assert left(runs) == {"other-1"}
    assert "deleted" in capsys.readouterr().err
    assert run_command(["rm", str(runs / "other-1"), "--yes"]) == 0
    assert left(runs) == set()


def test_without_a_terminal_nothing_is_deleted(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["rm", "other-1", "--runs", str(runs)]) == 2
    assert "give --yes" in capsys.readouterr().err
    assert len(left(runs)) == 3


@pytest.mark.parametrize(("answer", "code", "count"), [("y", 0, 2), ("n", 1, 3), ("", 1, 3)])
def test_on_a_terminal_the_user_is_asked(runs: Path, answer: str, code: int, count: int) -> None:
    controller, terminal = pty.openpty()
    os.write(controller, f"{answer}\n".encode())
    command = [sys.executable, "-m", "paceline", "rm", "other-1", "--runs", str(runs)]
    completed = subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    os.close(terminal)
    os.close(controller)
    assert completed.returncode == code
    assert completed.stderr.startswith("delete 1 run: ")
    assert len(left(runs)) == count


def test_a_run_that_is_being_made_is_refused_and_no_other_is_deleted(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FileLock(runs / "sweep-2" / "lock"):
        assert run_command(["rm", "sweep", "--yes", "--runs", str(runs)]) == 2
    assert "run sweep-2 is being made" in capsys.readouterr().err
    assert len(left(runs)) == 3


def test_links_are_not_followed(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    store(outside, made("linked-1"))
    (runs / "other-1" / "data").symlink_to(outside)
    (runs / "linked-1").symlink_to(outside / "linked-1")
    assert run_command(["rm", "linked-1", "--yes", "--runs", str(runs)]) == 2
    assert "is a link" in capsys.readouterr().err
    assert run_command(["rm", "other-1", "--yes", "--runs", str(runs)]) == 0
    assert (outside / "precious").exists()
    assert (outside / "linked-1" / "spec.toml").exists()


def test_an_unknown_run_deletes_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["rm", "other-1", "nothing", "--yes", "--runs", str(runs)]) == 2
    assert "unknown run 'nothing'" in capsys.readouterr().err
    assert len(left(runs)) == 3
