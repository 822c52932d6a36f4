"""Commands whose streams are closed, or whose current directory is gone, end with one line and without a traceback."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.golden import DEADLINE_S
from report.stored import store_run


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """A command line with `paceline`, run by a shell that can close streams."""
    program = f"{shlex.quote(sys.executable)} -m paceline"
    return subprocess.run(
        ["bash", "-c", command.replace("paceline", program)],
        capture_output=True, text=True, errors="replace", cwd=directory, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with some runs."""
    path = tmp_path_factory.mktemp("streams")
    for _ in range(3):
        store_run(path / "runs", name="made", steps=5)
    return path


@pytest.mark.parametrize("command", ["ls", "show latest", "workloads", "run logreg --stop steps=1 --runs other"])
def test_closed_stdout_is_refused_in_one_line(directory: Path, command: str) -> None:
    completed = shell(f"paceline {command} >&-", directory)
    assert completed.returncode == 2
    assert completed.stderr.startswith("paceline: stdout is closed")
    assert completed.stderr.count("\n") == 1
    assert not (directory / "other").exists()


def test_errors_are_printed_on_stdout_if_stderr_is_closed(directory: Path) -> None:
    completed = shell("paceline show nothing 2>&-", directory)
    assert completed.returncode == 2
    assert completed.stdout.startswith("paceline: unknown run 'nothing'")
    assert shell("paceline ls 2>&-", directory).stdout.count("made-") == 3
    assert shell("paceline ls <&- 2>&-", directory).stdout.count("made-") == 3


@pytest.mark.parametrize("command", ["ls", "ls --json", "show latest", "workloads"])
def test_a_reader_that_ends_early_causes_no_message(directory: Path, command: str) -> None:
    # `true` reads nothing, so that the first write fails however small it is.
    completed = shell(f"set -o pipefail; paceline {command} | true", directory)
    assert completed.stderr == ""
    assert completed.returncode == 0
    assert shell(f"paceline {command} | head -1", directory).stderr == ""


def test_a_deleted_current_directory_is_named(tmp_path: Path) -> None:
    for command in ("ls", "run logreg"):
        completed = shell(f"mkdir gone && cd gone && rmdir ../gone && paceline {command}", tmp_path)
        assert completed.returncode == 2
        assert completed.stderr == "paceline: the current directory was deleted: change to another directory\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such file names")
def test_names_that_are_not_utf8_are_refused_in_one_line(tmp_path: Path) -> None:
    runs = os.fsencode(tmp_path) + b"/runs-\xff"
    os.mkdir(runs)
    for command in (["ls"], ["run", "logreg"]):
        completed = subprocess.run(
            [sys.executable, "-m", "paceline", *command, "--runs", runs],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert completed.returncode == 2
        assert "is not valid UTF-8: rename the file or directory" in completed.stderr
        assert completed.stderr.count("\n") == 1


def test_an_empty_list_says_why_although_stderr_is_closed(directory: Path) -> None:
    completed = shell("paceline ls --runs nope 2>&-", directory)
    assert completed.returncode == 0
    assert completed.stdout.startswith("no runs in nope: ")
