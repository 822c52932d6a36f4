"""Shell completion, installed into a home directory and used by a real bash."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.cli.main import run_command

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="bash is not installed")
FRAMEWORKS = {"torch", "tensorflow", "pyspark", "keras", "polars", "starlette", "uvicorn", "tensorboard", "zmq"}

Complete = Callable[..., list[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home directory, next to a directory `bin` with a `paceline` command."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "paceline"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m paceline "$@"\n', "utf-8")
    command.chmod(0o755)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def bash(home: Path, script: str, *options: str) -> str:
    environment = {**os.environ, "HOME": str(home), "PATH": f"{home.parent / 'bin'}:{os.environ['PATH']}"}
    completed = subprocess.run(
        [BASH, *options, "-c", script], cwd=home, env=environment, capture_output=True, text=True, check=True
    )
    return completed.stdout


@pytest.fixture
def complete(home: Path) -> Complete:
    """Returns what bash offers when Tab is pressed after these words; the last word may be incomplete or empty."""

    def offers(*words: str) -> list[str]:
        quoted = " ".join(shlex.quote(word) for word in ("paceline", *words))
        script = f"""
            source <(paceline --show-completion bash)
            COMP_WORDS=({quoted})
            COMP_CWORD={len(words)}
            _paceline_completion paceline
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        return bash(home, script, "--norc").split()

    return offers


def make_runs(directory: Path, *ids: str) -> None:
    for number, run in enumerate(ids):
        (directory / run).mkdir(parents=True)
        spec = directory / run / "spec.toml"
        spec.touch()
        os.utime(spec, (number, number))


@needs_bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("re",), ["resume", "reproduce", "report"]),
        (("ls", "--status", "a"), ["aborted"]),
        (("ls", "--status", "ok,r"), ["ok,running"]),
        (("run", "logreg", "--strat"), ["--strategy"]),
        (("run", "l"), ["logreg", "lenet"]),
        (("run", "logreg,le"), ["logreg,lenet"]),
        (("run", "logreg", "--engine", ""), ["spark", "tensorflow", "torch"]),
        (("run", "logreg", "--engine", "torch,"), ["torch,spark", "torch,tensorflow"]),
        (("run", "logreg", "--strategy", "ps"), ["ps-sync", "ps-async"]),
        (("run", "logreg", "--strategy", "ps-sync,ps"), ["ps-sync,ps-async"]),
        (("run", "logreg", "--layout", "c"), ["cluster", "cluster2"]),
        (("run", "logreg", "--hosts", "n"), ["netns"]),
        (("reproduce", "--hosts", "l"), ["local"]),
        (("reproduce", "report1-table"), [f"report1-table{number}" for number in (3, 4, 5, 6)]),
        (("reproduce", "al"), ["all"]),
    ],
)
def test_bash_completes_commands_options_and_values(
    complete: Complete, words: tuple[str, ...], offered: list[str]
) -> None:
    assert complete(*words) == offered


@needs_bash
def test_bash_completes_the_runs_of_the_default_directory_newest_first(complete: Complete, home: Path) -> None:
    make_runs(home / "runs", "sizes-1", "sizes-2", "logreg-1")
    assert complete("show", "") == ["latest", "logreg-1", "sizes-2", "sizes-1"]
    assert complete("resume", "s") == ["sizes-2", "sizes-1"]


@needs_bash
def test_bash_completes_sweeps_for_commands_that_accept_them(complete: Complete, home: Path) -> None:
    make_runs(home / "runs", "sizes-1", "sizes-2", "logreg-1")
    assert complete("compare", "s") == ["sizes", "sizes-2", "sizes-1"]
    assert complete("report", "sizes", "lo") == ["logreg-1"]
    assert complete("rm", "s") == ["sizes", "sizes-2", "sizes-1"]
    assert complete("compare", "sizes", "--base", "lo") == ["logreg-1"]


@needs_bash
def test_bash_completes_the_runs_of_the_directory_given_by_the_runs_option(complete: Complete, home: Path) -> None:
    make_runs(home / "elsewhere", "mine-1")
    assert complete("show", "--runs", str(home / "elsewhere"), "m") == ["mine-1"]


@needs_bash
def test_unreadable_runs_directory_offers_nothing_and_prints_nothing(complete: Complete, home: Path) -> None:
    (home / "file").touch()
    assert complete("show", "--runs", str(home / "file"), "") == []
    assert complete("show", "--runs", str(home / "missing"), "") == []


@needs_bash
def test_install_detects_bash_and_new_shells_load_the_completion(home: Path) -> None:
    (home / ".bashrc").write_text("export KEPT=yes\n", "utf-8")
    for _ in range(2):
        # With a second command, bash does not replace itself with paceline, so paceline can detect it.
        output = bash(home, "paceline --install-completion; true", "--norc")
        assert output.startswith("bash completion is installed in ")
    assert (home / ".bashrc").read_text("utf-8").count("paceline.sh") == 1
    output = bash(home, 'source ~/.bashrc; echo "$KEPT"; complete -p paceline')
    assert output.splitlines() == ["yes", "complete -o default -F _paceline_completion paceline"]


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/paceline.sh"),
        ("zsh", ".zfunc/_paceline"),
        ("fish", ".config/fish/completions/paceline.fish"),
    ],
)
def test_install_for_a_named_shell_writes_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str, file: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_command(["--install-completion", shell]) == 0
    assert str(tmp_path / file) in capsys.readouterr().out
    assert run_command(["--show-completion", shell]) == 0
    assert capsys.readouterr().out.strip() == (tmp_path / file).read_text("utf-8").strip()


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_unsupported_shell_is_refused_with_the_supported_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_command([option, "tcsh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_get_completions_through_their_protocol(tmp_path: Path, shell: str) -> None:
    environment = {
        **os.environ,
        "_PACELINE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "paceline run logreg --engine ten",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-m", "paceline"]
    completed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "tensorflow" in completed.stdout
    assert completed.stderr == ""


@pytest.mark.parametrize(
    ("line", "slow_modules"),
    [
        ("paceline ", {*FRAMEWORKS, "numpy"}),
        ("paceline run logreg --engine ", {*FRAMEWORKS, "numpy"}),
        ("paceline run logreg --strategy ", {*FRAMEWORKS, "numpy"}),
        ("paceline run logreg --layout ", {*FRAMEWORKS, "numpy"}),
        ("paceline run logreg --hosts ", {*FRAMEWORKS, "numpy"}),
        ("paceline show ", {*FRAMEWORKS, "numpy"}),
        ("paceline reproduce ", {*FRAMEWORKS, "numpy"}),
        ("paceline run ", FRAMEWORKS),
    ],
)
def test_completion_loads_no_slow_module(tmp_path: Path, line: str, slow_modules: set[str]) -> None:
    make_runs(tmp_path / "runs", "logreg-1")
    environment = {
        **os.environ,
        "_PACELINE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split())),
    }
    command = [sys.executable, "-X", "importtime", "-m", "paceline"]
    completed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert completed.stdout.strip()
    loaded = {row.rpartition("|")[2].strip().partition(".")[0] for row in completed.stderr.splitlines()}
    assert "paceline" in loaded
    assert not loaded & slow_modules
