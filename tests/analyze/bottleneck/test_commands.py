"""The commands of remedies: those of the measured run with one change, with all its other options."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from paceline import pipeline
from paceline.analyze.bottleneck import remedies
from paceline.analyze.bottleneck.remedies import Configuration, configuration_of
from paceline.data.dataset import PreparedData
from paceline.spec.experiment import OPTIONS
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint
from paceline.strategies.registry import strategies
from report.stored import result_of, store_run


def configuration(runs: str | None = None, **fields: Any) -> Configuration:
    (plan,) = pipeline.plan(experiment({"workload": "logreg", **fields}))
    data = PreparedData(paths=(), source="none", synthetic=True)
    header = pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=0)
    return configuration_of(header, Path(runs) if runs else None)


def test_every_option_of_a_run_is_repeated_or_left_out_on_purpose() -> None:
    repeated = {*remedies._FLAGS, *remedies._FLAGS_UNLESS_DEFAULT, *remedies._SETTINGS, *remedies._ENGINE_OPTIONS}
    repeated |= {option for strategy in strategies().values() for option in strategy.options}
    repeated |= {"workload", "stop", "runs"}
    of_run = {name for name, option in OPTIONS.items() if option.cli != "launch"}
    assert of_run - repeated == set(remedies.LEFT_OUT)
    of_script = {name for name, option in OPTIONS.items() if option.launch}
    assert of_script - {*remedies._LAUNCH_FLAGS, "stop", "runs"} == set(remedies.LEFT_OUT)


@pytest.mark.parametrize(
    "options",
    [
        {"on_failure": "restart"},
        {"time_limit": "90s"},
        {"restarts": 7},
        {"seed": 3},
        {"checkpoint_keep": 9},
        {"sample_hz": 2.0},
        {"record": False},
        {"strategy": "ps-sync", "layout": "p w w", "backup": 1},
    ],
)
def test_a_command_gives_the_options_of_the_run(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    from paceline.cli.main import run_command

    words = shlex.split(configuration(runs="elsewhere/runs", stop="steps=7", **options).command(batch=200))
    assert run_command([*words[1:], "--dry-run"]) == 0
    capsys.readouterr()
    name, value = list(options.items())[-1]
    flag = f"--{name.replace('_', '-')} {value}"
    assert flag in " ".join(words) or f"--set {name}={str(value).lower()}" in " ".join(words)
    assert words[words.index("--runs") + 1] == "elsewhere/runs"
    assert "--batch 200" in " ".join(words)


def test_backup_workers_are_left_out_where_a_change_does_not_allow_them() -> None:
    measured = configuration(strategy="ps-sync", layout="p w w", backup=1)
    assert "--backup" not in measured.command(strategy="ps-async")
    assert "--backup" not in measured.command(layout="pw")


def test_a_failed_run_has_no_remedies_unless_it_was_too_slow_for_its_time_limit(tmp_path: Path) -> None:
    reason = "w0 on h1 failed: ValueError: bad row"
    failed = result_of(store_run(tmp_path / "failed", steps=10, end=("failed", reason)))
    assert failed.verdict.cause == "startup"
    assert failed.verdict.remedy == []
    aborted = result_of(store_run(tmp_path / "aborted", steps=10, end=("aborted", "interrupted by the user")))
    assert any("train longer" in remedy for remedy in aborted.verdict.remedy)
    slow = result_of(
        store_run(tmp_path / "slow", end=("failed", "within the time limit of 2s"), time_limit="2s", strategy="ps-sync")
    )
    assert any("--time-limit 2s" in remedy for remedy in slow.verdict.remedy)
    assert slow.time_limit_s == 2.0
