"""`paceline compare` on stored runs: its text and its JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from analyze.made import made, repeats
from paceline.cli.main import run_command
from paceline.store.paths import RunPaths
from paceline.store.result import Result, encode


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """Sweep `modes`: two strategies, three repeats each, and a failed run. Sweep `later`: ps-sync, a fifth slower."""
    results = [
        *repeats("modes", [3.1, 3.0, 3.2], "to_loss_s"),
        *[made(f"modes-{n}", strategy="ps-async", to_loss_s=1 + n / 100, steps=[90, 30]) for n in (4, 5, 6)],
        made("modes-7", stop=["loss=0.5"], status="failed", reason="w1 on h2 was killed"),
        *repeats("later", [3.7, 3.72, 3.75], "to_loss_s"),
        made("once-1", batch=50, to_loss_s=4.0),
    ]
    for result in results:
        store(tmp_path, result)
    return str(tmp_path)


def store(runs: Path, result: Result) -> None:
    paths = RunPaths(runs / result.run)
    paths.directory.mkdir()
    paths.spec.touch()
    paths.result.write_bytes(encode(result))


def compare(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert run_command(["compare", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    return json.loads(compare(capsys, *arguments, "--json", code=code)[0])


def test_text_states_which_differences_are_significant(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    text, _ = compare(capsys, "modes", "--runs", runs)
    assert "Compared with baseline ps-sync\n" in text
    assert "ps-async is 3.0× faster to loss 0.5 (95 % CI 2.7–3.2, n=3)" in text
    assert "to reach loss 0.5, ps-async needed 66 % less time" in text
    assert "ps-async: w0 made 75 % of the steps" in text
    assert "excluded: modes-7, failed: w1 on h2 was killed" in text
    assert "3 of 4" in text


def test_the_baseline_can_be_selected(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    text, _ = compare(capsys, "modes", "--base", "modes-5", "--runs", runs)
    assert "Compared with baseline ps-async\n" in text
    assert "ps-sync is 3.0× slower to loss 0.5" in text


def test_json_has_the_numbers_of_the_runs(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    record = as_json(capsys, "modes", "--runs", runs)
    ps_sync, ps_async = record["groups"]
    assert ps_sync["runs"] == ["modes-1", "modes-2", "modes-3"]
    assert ps_sync["figures"]["to_target_s"] == {
        "median": 3.1,
        "lowest": 3.0,
        "highest": 3.2,
        "values": [3.1, 3.0, 3.2],
    }
    assert record["left_out"] == [{"run": "modes-7", "why": "failed: w1 on h2 was killed"}]
    first = record["differences"][0]
    assert (first["figure"], first["group"], first["base"], first["outcome"]) == (
        "to_target_s", "ps-async", "ps-sync", "differs",
    )  # fmt: skip
    assert first["ratio"] == ps_async["figures"]["to_target_s"]["median"] / 3.1
    assert first["low"] < first["ratio"] < first["high"] < 1
    assert record["answers"][0]["winner"] == "ps-async"
    assert record["sync_async"][0]["group"] == "ps-async"
    assert "too_slow" not in record


def test_equal_configurations_of_two_sweeps_are_compare(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    arguments = ("modes", "later", "--runs", runs, "--fail-if-slower", "5%")
    _, messages = compare(capsys, *arguments, code=1)
    assert messages == (
        "not checked: modes ps-async matches no configuration of the baseline\n"
        "too slow: later ps-sync compared with modes ps-sync: 1.20× slower to loss 0.5 (95 % CI 1.11–1.30, n=3)\n"
    )
    assert as_json(capsys, *arguments, code=1)["too_slow"] is True
    _, messages = compare(capsys, "modes", "later", "--runs", runs, "--fail-if-slower", "0.3")
    assert "fast enough: later ps-sync compared with" in messages
    _, messages = compare(capsys, "later", "modes", "--runs", runs, "--fail-if-slower", "5%")
    assert "fast enough: modes ps-sync compared with later ps-sync: 1.20× faster" in messages


def test_repeats_named_one_by_one_are_grouped(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    record = as_json(capsys, "modes-1", "modes-2", "modes-3", "modes-4", "--runs", runs)
    assert [len(group["runs"]) for group in record["groups"]] == [3, 1]


def test_with_one_repeat_the_median_decides(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    _, messages = compare(capsys, "modes-1", "once-1", "--runs", runs, "--fail-if-slower", "5%", code=1)
    assert "n=1: significance unknown" in messages


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("modes", "--fail-if-slower", "fast"), "write e.g. 5% or 0.05"),
        (("modes", "--fail-if-slower", "-5%"), "write e.g. 5% or 0.05"),
        (("modes-1", "modes-2", "--fail-if-slower", "5%"), "two configurations or more"),
        (("modes", "--base", "nothing"), "unknown run 'nothing'"),
        (("modes", "--base", "modes-7", "--fail-if-slower", "5%"), "went well"),
    ],
)
def test_invalid_use_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    store(tmp_path, made("modes-1"))
    store(tmp_path, made("modes-2"))
    store(tmp_path, made("modes-7", batch=50, status="failed", reason="x"))
    _, error = compare(capsys, *arguments, "--runs", str(tmp_path), code=2)
    assert message in error
    assert error.count("\n") == 1
