"""What TensorBoard finds in a run's directory, read back by its own reader."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

import paceline
from paceline.control import tensorboard_writer as boards
from paceline.store.result import Result


def opened(result: Result) -> EventMultiplexer:
    """As `tensorboard --logdir runs/<id>/tensorboard` opens it, with every point of every curve kept."""
    found = EventMultiplexer(tensor_size_guidance={"tensors": 0})
    found.AddRunsFromDirectory(str(Path(result.dir) / "tensorboard"))
    found.Reload()
    return found


def curves(board: EventMultiplexer) -> dict[str, set[str]]:
    """Of each worker; one whose records came in a single shipment has no pace, so that is left out."""
    other = {"__run_graph__", "steps_per_s"}
    return {worker: set(found["tensors"]) - other for worker, found in board.Runs().items()}


def curve(board: EventMultiplexer, worker: str, tag: str) -> list[tuple[int, float]]:
    """(update, value) of each point."""
    return [(event.step, event.tensor_proto.float_val[0]) for event in board.Tensors(worker, tag)]


def recorded(result: Result, worker: str, kind: str, column: str) -> list[tuple[int, float]]:
    """The same from the raw records, with every step there was."""
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(task=worker, kind=kind).sort("t_s")
    return steps.select("update", column).rows()


@given(st.lists(st.integers(0, 40), max_size=6))
def test_a_few_points_are_taken_evenly_from_all_that_came_however_it_came(sizes: list[int]) -> None:
    everything = np.arange(sum(sizes))
    found = [int(one) for one in boards._evenly_spaced(np.split(everything, np.cumsum(sizes)))]
    assert len(found) == min(10, len(everything))
    if found:
        assert (found[0], found[-1]) == (0, len(everything) - 1)
        apart = np.diff(found)
        assert (apart > 0).all()
        assert np.ptp(apart) <= 1 if len(apart) else True


@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
def test_each_workers_curves_are_apart_and_as_recorded(tmp_path: Path, engine: str) -> None:
    (result,) = paceline.run(
        "logreg", engine=engine, strategy="ps-async", layout="pw w", stop="steps=300", eval_every=100,
        runs=str(tmp_path / "runs"),
    )  # fmt: skip
    board = opened(result)
    assert curves(board) == {"w0": {"loss", "eval/loss", "eval/accuracy"}, "w1": {"loss"}}  # the chief evaluates
    for worker in ("w0", "w1"):
        losses, steps = curve(board, worker, "loss"), dict(recorded(result, worker, "step", "loss"))
        assert len(losses) >= 5
        assert losses == [(update, steps[update]) for update, _ in losses]
        assert [update for update, _ in losses] == sorted({update for update, _ in losses})
        # From the first step it made to the last.
        assert {losses[0][0], losses[-1][0]} == {min(steps), max(steps)}
    assert curve(board, "w0", "eval/accuracy") == recorded(result, "w0", "eval", "accuracy")
    assert curve(board, "w0", "eval/accuracy")[-1][1] == pytest.approx(result.final.accuracy, abs=1e-6)


def test_a_tensorflow_run_has_the_graph_of_every_worker(tmp_path: Path) -> None:
    (result,) = paceline.run(
        "logreg", engine="tensorflow", strategy="ps-sync", layout="pw w", stop="steps=20", runs=str(tmp_path / "runs")
    )
    for number, worker in enumerate(("w0", "w1")):
        devices = {node.device for node in opened(result).Graph(worker).node}
        assert any(f"/job:worker/task:{number}" in device for device in devices)
        assert any("/job:ps/task:0" in device for device in devices)


@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
def test_what_is_not_training_has_no_loss(tmp_path: Path, engine: str) -> None:
    (result,) = paceline.run(
        "matmul", engine=engine, strategy="allreduce", layout="w w", stop="steps=3", runs=str(tmp_path / "runs")
    )
    board = opened(result)
    assert curves(board) == {"w0": {"value"}, "w1": {"value"}}
    for worker in ("w0", "w1"):
        values = [value for _, value in curve(board, worker, "value")]
        assert values == pytest.approx([result.final.value] * 3, rel=1e-6)
