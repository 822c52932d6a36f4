"""The flags of `paceline run` are those that the spec declares."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli.main import _COMMANDS, run_command
from paceline.spec.experiment import OPTIONS

FLAGS = [option for option in OPTIONS.values() if option.cli == "flag"]


def help_text(capsys: pytest.CaptureFixture[str], command: str) -> str:
    assert run_command([command, "--help"]) == 0
    return " ".join(capsys.readouterr().out.replace("-\n", "-").split())


def test_help_lists_every_option_with_its_description_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_text(capsys, "run")
    for option in FLAGS:
        assert f"--{option.label} " in text
        assert "".join(option.help.split()) in "".join(text.split())
    assert "Examples per worker and step. Default: 100." in text
    for option in OPTIONS.values():
        assert option.cli != "set" or option.name in text.partition("--set")[2]


@pytest.mark.parametrize("command", ["", *_COMMANDS])
def test_help_fits_80_columns_and_cuts_no_sentence(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"\w\.\.\.$", text, re.MULTILINE)
    options = text.partition("\nOptions:")[2]
    assert "<" not in options


def test_an_option_of_which_a_list_makes_a_sweep_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_text(capsys, "run")
    for shown in ("--batch N,..", "--engine TEXT,..", "--repeat N ", "--stop TEXT ", "--name TEXT "):
        assert shown in text


def test_reproduce_takes_defaults_from_the_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_text(capsys, "reproduce")
    for name in ("engine", "hosts", "stop"):
        assert "".join(f"{OPTIONS[name].help} Default: the recipe's.".split()) in "".join(text.split())


def test_help_loads_no_framework_and_no_other_slow_module() -> None:
    code = (
        "import sys; from paceline.cli.main import run_command; run_command(['run', '--help']);"
        "print('\\nloaded', *{name.partition('.')[0] for name in sys.modules})"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(completed.stdout.splitlines()[-1].split())
    assert "msgspec" in loaded
    assert not loaded & {"torch", "tensorflow", "numpy", "polars", "rich", "zmq", "starlette", "uvicorn"}


PLAN = ["--strategy", "ps-sync", "--layout", "pw w", "--dry-run"]


def plan_text(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_command(["run", *arguments, *PLAN]) == 0
    return capsys.readouterr().out


def test_flags_override_the_file_and_set_overrides_both(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text('workload = "logreg"\nbatch = 31\nrestarts = 7\n')
    assert " 31 " in plan_text(capsys, str(spec))
    assert "restarts 7" in plan_text(capsys, str(spec), "--batch", "32")
    assert " 32 " in plan_text(capsys, str(spec), "--batch", "32")
    assert " 33 " in plan_text(capsys, str(spec), "--batch", "32", "--set", "batch=33")


def test_plan_shows_every_option_that_is_not_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    text = plan_text(capsys, "logreg", "--set", "sample_hz=5", "--backup", "1", "--eval-every", "50,60")
    assert text.count("backup 1 sample_hz 5.0") == 2
    assert "eval_every 50" in text
    assert "eval_every 60" in text


def test_empty_spec_file_is_refused_for_lack_of_a_workload(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("")
    assert run_command(["run", str(tmp_path / "spec.toml")]) == 2
    assert "no workload" in capsys.readouterr().err
