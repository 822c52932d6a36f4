"""Predictions and advice from real runs on this machine."""

from pathlib import Path

import msgspec
import pytest

import paceline
from paceline.cli.main import run_command
from paceline.errors import PredictError

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short runs of logreg with different batches."""
    directory = tmp_path_factory.mktemp("predict") / "runs"
    paceline.run(
        "logreg",
        batch=[32, 256],
        strategy="ps-async",
        layout="p w",
        transport="tcp",
        stop="seconds=2.5",
        name="profile",
        runs=str(directory),
    )
    return directory


def predict(runs: Path, *arguments: str) -> int:
    return run_command(["predict", "profile", "--runs", str(runs), *arguments])


def test_unseen_configurations_are_predicted_from_two_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = predict(runs, "--layout", "p w w", "--batch", "64,128", "--strategy", "ps-sync,ps-async,allreduce", "--json")
    found = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [(one["strategy"], one["layout"], one["batch"]) for one in found] == [
        (strategy, layout, batch)
        for strategy, layout in (("ps-sync", "p w w"), ("ps-async", "p w w"), ("allreduce", "w w"))
        for batch in (64, 128)
    ]
    for one in found:
        rate = one["updates_per_s"]
        assert 0 < rate["low"] < rate["value"] < rate["high"]
        assert one["rests_on"] == ["profile-1", "profile-2"]
        assert bool(one["not_measured"]) == (one["strategy"] != "ps-async")


@pytest.mark.alone
def test_a_run_is_predicted_close_to_what_it_measured(runs: Path) -> None:
    (found,) = paceline.predict("profile", runs=str(runs))
    measured = msgspec.json.decode((runs / "profile-1" / "result.json").read_bytes())["updates_per_s"]
    # A prediction assumes a machine without background load, which slows down the run.
    assert measured / 1.5 < found.updates_per_s.value < 4 * measured


def test_a_workload_that_was_never_run_is_refused_with_the_run_to_make(runs: Path) -> None:
    with pytest.raises(PredictError, match=r"none of the 2 runs trained lenet with torch .*: make one first"):
        paceline.predict("profile", runs=str(runs), workload="lenet")


def test_a_target_that_no_run_reached_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(runs, "--strategy", "ps-sync", "--target", "accuracy=0.99999") == 2
    assert "no run says how many updates of 32 examples logreg needs for accuracy=0.99999" in capsys.readouterr().err
    assert predict(runs, "--target", "seconds=5") == 2
    assert "target 'seconds=5': must be loss=X or accuracy=X" in capsys.readouterr().err


def test_a_run_that_is_too_short_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paceline.run("logreg", stop="steps=5", name="short", runs=str(tmp_path))
    assert run_command(["predict", "short", "--runs", str(tmp_path), "--batch", "10"]) == 2
    assert "it is too short (5 steps" in capsys.readouterr().err


@pytest.mark.slow
def test_verify_prints_the_error_of_each_prediction(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(runs, "--batch", "64", "--verify", "--json") == 0
    (one,) = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert one["measured"]["updates_per_s"] == pytest.approx(one["updates_per_s"]["value"], rel=0.5)
    assert (runs / one["measured"]["run"] / "result.json").exists()


@pytest.mark.slow
def test_advise_answers_with_a_command_and_continues_from_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["advise", "logreg", "--runs", str(tmp_path), "--goal", "examples/s", "--budget", "120s", "--json"]
    arguments += ["--strategy", "ps-async,allreduce", "--layout", "p w w", "--batch", "16,256"]
    assert run_command(arguments) == 0
    first = msgspec.json.decode(capsys.readouterr().out)
    assert "--batch 256" in first["command"]
    assert first["command"].startswith("paceline run logreg")
    assert len(first["candidates"]) == 4
    assert first["seconds"] < 150
    assert run_command(arguments) == 0
    again = msgspec.json.decode(capsys.readouterr().out)
    assert again["command"] == first["command"] or first["command"] in again["ties"]
    assert again["runs"] <= 2
