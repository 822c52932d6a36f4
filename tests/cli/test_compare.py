"""Stored runs side by side, as a person and as a script sees them."""

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
    """Two strategies, three repeats each and one that failed; and the same later, with sync slower by a fifth."""
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


def compared(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert run_command(["compare", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    return json.loads(compared(capsys, *arguments, "--json", code=code)[0])


def test_a_person_reads_which_difference_is_real(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    said, _ = compared(capsys, "modes", "--runs", runs)
    assert "Against the base, ps-sync\n" in said
    assert "ps-async is 3.0× faster to loss 0.5 (2.7 to 3.2×, 3 repeats)" in said
    assert "the same loss 0.5 took ps-async 0.34× the seconds" in said
    assert "in ps-async, w0 made 75% of the steps" in said
    assert "left out: modes-7, failed: w1 on h2 was killed" in said
    assert "3 of 4" in said


def test_the_base_can_be_chosen(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    said, _ = compared(capsys, "modes", "--base", "modes-5", "--runs", runs)
    assert "Against the base, ps-async\n" in said
    assert "ps-sync is 3.0× slower to loss 0.5" in said


def test_json_has_the_numbers_of_the_runs(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    told = as_json(capsys, "modes", "--runs", runs)
    sync, other = told["groups"]
    assert sync["runs"] == ["modes-1", "modes-2", "modes-3"]
    assert sync["figures"]["to_target_s"] == {"median": 3.1, "lowest": 3.0, "highest": 3.2, "values": [3.1, 3.0, 3.2]}
    assert told["left_out"] == [{"run": "modes-7", "why": "failed: w1 on h2 was killed"}]
    first = told["differences"][0]
    assert (first["figure"], first["group"], first["base"], first["outcome"]) == (
        "to_target_s", "ps-async", "ps-sync", "differs",
    )  # fmt: skip
    assert first["ratio"] == other["figures"]["to_target_s"]["median"] / 3.1
    assert first["low"] < first["ratio"] < first["high"] < 1
    assert told["answers"][0]["winner"] == "ps-async"
    assert told["sync_async"][0]["group"] == "ps-async"
    assert "too_slow" not in told


def test_before_and_after_are_held_against_each_other(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    arguments = ("modes", "later", "--runs", runs, "--fail-if-slower", "5%")
    _, why = compared(capsys, *arguments, code=1)
    assert why == (
        "not judged: modes ps-async has no counterpart\n"
        "too slow: later ps-sync against modes ps-sync: 1.20× slower to loss 0.5 (1.11 to 1.30×, 3 repeats)\n"
    )
    assert as_json(capsys, *arguments, code=1)["too_slow"] is True
    _, why = compared(capsys, "modes", "later", "--runs", runs, "--fail-if-slower", "0.3")
    assert "fast enough: later ps-sync against" in why
    _, why = compared(capsys, "later", "modes", "--runs", runs, "--fail-if-slower", "5%")
    assert "fast enough: modes ps-sync against later ps-sync: 1.20× faster" in why


def test_repeats_named_one_by_one_are_still_repeats(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    told = as_json(capsys, "modes-1", "modes-2", "modes-3", "modes-4", "--runs", runs)
    assert [len(group["runs"]) for group in told["groups"]] == [3, 1]


def test_one_repeat_decides_by_itself_and_it_is_said(capsys: pytest.CaptureFixture[str], runs: str) -> None:
    _, why = compared(capsys, "modes-1", "once-1", "--runs", runs, "--fail-if-slower", "5%", code=1)
    assert "one repeat each: may be chance" in why


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("modes", "--fail-if-slower", "fast"), "write e.g. 5% or 0.05"),
        (("modes", "--fail-if-slower", "-5%"), "write e.g. 5% or 0.05"),
        (("modes-1", "modes-2", "--fail-if-slower", "5%"), "two configurations or more"),
        (("modes", "--base", "nothing"), "unknown run 'nothing'"),
        (("modes", "--base", "modes-7", "--fail-if-slower", "5%"), "went well"),
    ],
)
def test_misuse_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    store(tmp_path, made("modes-1"))
    store(tmp_path, made("modes-2"))
    store(tmp_path, made("modes-7", batch=50, status="failed", reason="x"))
    _, error = compared(capsys, *arguments, "--runs", str(tmp_path), code=2)
    assert says in error
    assert error.count("\n") == 1
