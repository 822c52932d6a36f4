"""Commands, options, positional arguments and exit codes do not change: scripts rely on them."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from contracts.golden import assert_equal, golden, json_lines, paceline
from paceline.cli.main import app
from support.live_run import LiveRun


def test_commands_options_and_arguments_match_the_golden_file() -> None:
    expected = golden("cli.toml")
    actual = dict(_commands("paceline", typer.main.get_command(app)))
    for name in expected:
        assert name in actual, f"the command `{name}` is missing: users rely on it"
    for name, parameters in actual.items():
        assert name in expected, f'the command `{name}` is new: add a table ["{name}"] with {parameters} to cli.toml'
        labelled = [
            {f"{name} {flag}": takes for flag, takes in table.items()} for table in (expected[name], parameters)
        ]
        assert_equal("cli.toml", *labelled)


def _commands(name: str, command: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Every command with its parameters: what each option and each positional argument takes."""
    options = [p for p in command.params if p.param_type_name == "option"]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    parameters = {f"argument {number}": _argument(p) for number, p in enumerate(arguments, 1)}
    parameters |= {" ".join([*p.opts, *p.secondary_opts]): _option(p) for p in options}
    yield name, parameters
    for subcommand, inner in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {subcommand}", inner)


def _argument(parameter: Any) -> str:
    return f"{'one' if parameter.nargs == 1 else 'several'}, {'required' if parameter.required else 'optional'}"


def _option(parameter: Any) -> str:
    takes = "no value" if parameter.is_flag or parameter.count else "a value"
    return takes + (", repeatable" if parameter.multiple else "") + (", required" if parameter.required else "")


def test_successful_run_exits_with_0(new_run: subprocess.CompletedProcess[str]) -> None:
    assert new_run.returncode == 0, new_run.stderr
    assert json_lines(new_run)[0]["status"] == "ok"


def test_run_whose_workload_raises_exits_with_1(failed_run: subprocess.CompletedProcess[str]) -> None:
    assert failed_run.returncode == 1, failed_run.stderr
    (result,) = json_lines(failed_run)
    assert result["status"] == "failed"
    assert "there is no second batch" in result["traceback"]


def test_run_that_diverges_exits_with_1(tmp_path: Path) -> None:
    options = ("--set", "lr=1e38", "--stop", "steps=50", "--runs", tmp_path / "runs", "--json")
    completed = paceline("run", "logreg", *options)
    assert completed.returncode == 1, completed.stderr
    assert json_lines(completed)[0]["status"] == "diverged"


@pytest.mark.parametrize(
    "arguments",
    ["run no-such-workload", "run logreg --no-such-option", "run missing.toml", "run logreg --batch 0", "show latest"],
)
def test_refused_command_exits_with_2_and_starts_nothing(tmp_path: Path, arguments: str) -> None:
    completed = paceline(*arguments.split(), "--runs", tmp_path / "runs")
    assert completed.returncode == 2, completed.stderr
    assert not completed.stdout
    assert not (tmp_path / "runs").exists()


def test_interrupted_run_exits_with_130(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", "--stop", "seconds=600")
    run.wait_until_training()
    run.process.send_signal(signal.SIGINT)
    code, result = run.result()
    assert code == 130
    assert result["status"] == "aborted"


def test_compare_exits_with_1_if_a_run_is_slower_than_allowed(runs: Path) -> None:
    compare = ("compare", "modes-1", "modes-2", "--runs", runs, "--fail-if-slower")
    assert paceline(*compare, "5%").returncode == 1
    assert paceline(*compare, "900%").returncode == 0
