"""The commands of the course's labs run, in a short form: fewer steps, no repeats."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.cli.main import run_command

COURSE = Path(__file__).parents[2] / "docs" / "course"
LABS = sorted(COURSE.glob("lab*.md"))
NEEDS_NETWORK_NAMESPACES = "netns"


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `paceline` command in the code blocks of a page, without the name of the program."""
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("paceline "):
                yield shlex.split(line)[1:]


def short_form(words: list[str]) -> list[str]:
    """The command with few steps and without repeats. Faults happen at a time, so such a run keeps its seconds."""
    if words[0] != "run":
        return words
    kept, values = [], iter(words)
    for word in values:
        if word in ("--stop", "--repeat"):
            value = next(values)
            if word == "--stop" and "--fault" in words:
                kept += [word, value]
        else:
            kept.append(word)
    return kept if "--fault" in words else [*kept, "--stop", "steps=40"]


def runs_of(page: Path, *, with_networks: bool) -> list[list[str]]:
    """The commands of a lab in order; without networks, those that need no root, and those that show their runs."""
    found: list[list[str]] = []
    names: set[str] = set()
    for words in commands(page):
        if words[0] == "run":
            if not with_networks and NEEDS_NETWORK_NAMESPACES in words:
                continue
            names.add(words[words.index("--name") + 1])
        elif not any(word in names or word.rpartition("-")[0] in names for word in words[1:]):
            continue
        found.append(words)
    return found


def run_lab(page: Path, directory: Path, *, with_networks: bool) -> None:
    selected = runs_of(page, with_networks=with_networks)
    assert selected
    for words in selected:
        command = [sys.executable, "-m", "paceline", *short_form(words)]
        completed = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        assert completed.returncode == 0, f"{shlex.join(words)}\n{completed.stderr}"


def test_there_are_five_labs_with_questions_and_answers() -> None:
    assert len(LABS) == 5
    answers = (COURSE / "answers.md").read_text("utf-8")
    for page in LABS:
        text = page.read_text("utf-8")
        questions = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
        assert questions == list(range(1, len(questions) + 1)), page.name
        (section,) = re.findall(
            rf"^## {text.splitlines()[0][2:].partition(':')[0]}\b.*?(?=^## |\Z)", answers, re.M | re.S
        )
        answered = [int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]
        assert answered == questions, page.name


@pytest.mark.parametrize("page", LABS, ids=lambda page: page.stem)
def test_every_command_of_a_lab_can_be_planned(page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in runs_of(page, with_networks=False):
        if words[0] == "run":
            assert run_command([*words, "--dry-run", "--runs", str(tmp_path)]) == 0, capsys.readouterr().err


def test_lab_on_faults_has_a_form_without_root() -> None:
    for page in LABS:
        assert runs_of(page, with_networks=False), page.name


def test_first_lab_runs_in_short_form(tmp_path: Path) -> None:
    first = next(words for words in commands(LABS[0]))
    command = [sys.executable, "-m", "paceline", *short_form(first)]
    completed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert "ps-async" in completed.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", LABS, ids=lambda page: page.stem)
def test_lab_runs_without_root(page: Path, tmp_path: Path) -> None:
    run_lab(page, tmp_path, with_networks=False)


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.parametrize("page", LABS, ids=lambda page: page.stem)
def test_lab_runs_with_networks(page: Path, tmp_path: Path) -> None:
    run_lab(page, tmp_path, with_networks=True)
