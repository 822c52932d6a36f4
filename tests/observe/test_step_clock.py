"""The clock of a script's steps: what hooks report becomes step records whose phases add up to the step."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from paceline.observe.step_clock import NO_BATCH
from paceline.recording.layout import RecordKind
from support.training_script import Script, ms_by_kind


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    return Script(tmp_path / "records", monkeypatch)  # type: ignore[return-value]


def test_a_step_has_the_time_of_each_phase_and_begins_where_the_last_one_ended(script: Script) -> None:
    script.wait(500)  # Imports and preparation.
    for _ in range(2):
        script.load(1)
        script.wait(0.5)
        script.forward(2)
        script.backward(4, exchange_ms=3)
        script.optimize(1)
    rows = script.rows()
    phases = {"data": 1, "forward": 2, "backward": 4, "exchange": 3, "optimizer": 1}
    assert ms_by_kind(rows, 0) == ms_by_kind(rows, 1) == {**phases, "step": 11.5}
    steps = rows[rows["kind"] == RecordKind.STEP]
    assert int(steps["start_ns"][1]) == int(steps["start_ns"][0] + steps["duration_ns"][0])
    assert list(steps["examples"]) == [8, 8]
    assert (script.started, script.steps) == (1, 2)


def test_micro_batches_are_one_step(script: Script) -> None:
    for _ in range(3):
        script.load(1, examples=4)
        script.forward(2)
        script.backward(3)
    script.optimize(1)
    rows = script.rows()
    assert ms_by_kind(rows, 0) == {"data": 3, "forward": 6, "backward": 9, "optimizer": 1, "step": 19}
    (step,) = rows[rows["kind"] == RecordKind.STEP]
    assert (step["micro_batches"], step["examples"]) == (3, 12)


def test_an_exchange_inside_of_another_phase_counts_only_as_exchange(script: Script) -> None:
    script.load(1)
    before = script.clock.enter_forward(0, with_gradients=True)
    script.wait(2)
    script.exchange(5)
    script.wait(1)
    script.clock.leave(before)
    script.exchange(4)
    script.optimize(1)
    assert ms_by_kind(script.rows(), 0) == {"data": 1, "forward": 3, "exchange": 9, "optimizer": 1, "step": 14}


def train_step(script: Script) -> None:
    script.load(1)
    script.forward(2)
    script.backward(3)
    script.optimize(1)


def test_an_evaluation_between_steps_is_no_part_of_a_step(script: Script) -> None:
    train_step(script)
    for _ in range(3):
        script.load(5)
        script.forward(10, with_gradients=False)
        script.wait(1)
    train_step(script)
    rows = script.rows()
    assert ms_by_kind(rows, 0) == {"data": 1, "forward": 2, "backward": 3, "optimizer": 1, "step": 7}
    assert ms_by_kind(rows, 1) == {"eval": 48, "data": 1, "forward": 2, "backward": 3, "optimizer": 1, "step": 7}
    (evaluation,) = rows[rows["kind"] == RecordKind.EVAL]
    assert evaluation["update"] == 1


def test_a_forward_pass_without_gradients_on_a_trained_batch_is_training(script: Script) -> None:
    """As with a teacher model."""
    script.load(1)
    script.forward(4, with_gradients=False)
    script.forward(2)
    script.backward(3)
    script.optimize(1)
    assert ms_by_kind(script.rows(), 0) == {"data": 1, "forward": 6, "backward": 3, "optimizer": 1, "step": 11}


def test_an_evaluation_after_the_last_step_is_recorded(script: Script) -> None:
    train_step(script)
    script.load(5)
    script.forward(10, with_gradients=False)
    assert ms_by_kind(script.rows(), 1) == {"eval": 15}


def test_a_checkpoint_is_no_part_of_a_step(script: Script) -> None:
    train_step(script)
    script.save(20)
    train_step(script)
    rows = script.rows()
    assert ms_by_kind(rows, 1) == {
        "checkpoint": 20, "data": 1, "forward": 2, "backward": 3, "optimizer": 1, "step": 7,
    }  # fmt: skip


def test_what_was_loaded_before_the_first_step_is_preparation(script: Script) -> None:
    """Such as a pass over the data to compute its mean."""
    for _ in range(5):
        script.load(100)
    train_step(script)
    assert ms_by_kind(script.rows(), 0) == {"data": 1, "forward": 2, "backward": 3, "optimizer": 1, "step": 7}


def test_the_loss_of_a_step_is_the_mean_over_its_micro_batches(script: Script) -> None:
    script.load(1)
    script.forward(1)
    script.clock.add_loss(1.0)
    script.clock.add_loss(3.0)
    script.optimize(1)
    rows = script.rows()
    assert rows[rows["kind"] == RecordKind.STEP]["loss"].tolist() == [2.0]
    assert script.clock.loss == 2.0


def examples_of(rows: np.ndarray) -> list[int]:
    examples: list[int] = rows[rows["kind"] == RecordKind.STEP]["examples"].tolist()
    return examples


def test_a_batch_that_was_loaded_but_never_used_does_not_count(script: Script) -> None:
    """As in scripts that look at the first batch before each epoch."""
    for _epoch in range(2):
        script.load(1, examples=8)
        for examples in (8, 8, 3):
            script.load(1, examples=examples)
            script.forward(1, examples=examples)
            script.forward(1, examples=NO_BATCH)
            script.optimize(1)
    assert examples_of(script.rows()) == [8, 8, 3, 8, 8, 3]


def test_batches_loaded_ahead_count_in_the_step_that_uses_them(script: Script) -> None:
    script.load(1, examples=8)
    for loaded, used in ((8, 8), (3, 8), (0, 3)):
        if loaded:
            script.load(1, examples=loaded)
        script.forward(1, examples=used)
        script.forward(1, examples=NO_BATCH)  # The loss gets the output of the model, which is no further batch.
        script.optimize(1)
    assert examples_of(script.rows()) == [8, 8, 3]


def test_the_batch_of_a_step_without_a_forward_pass_counts(script: Script) -> None:
    """As in scripts that compile the model and its loss as one function."""
    for examples in (8, 8, 3):
        script.load(1, examples=examples)
        script.backward(1)
        script.optimize(1)
    assert examples_of(script.rows()) == [8, 8, 3]


def test_without_a_data_loader_the_examples_are_those_that_the_model_gets(script: Script) -> None:
    for _ in range(2):
        script.forward(1, examples=20)
        script.forward(1, examples=NO_BATCH)
        script.optimize(1)
    assert examples_of(script.rows()) == [20, 20]


def test_a_loss_that_is_divided_by_the_number_of_micro_batches_is_their_mean_again(script: Script) -> None:
    for losses in ((1.0, 2.0, 3.0, 6.0), (1.0, 3.0)):  # The last step of an epoch may have fewer.
        for loss in losses:
            script.forward(1)
            script.clock.add_loss(loss / 4, divisor=4)
        script.optimize(1)
    rows = script.rows()
    assert rows[rows["kind"] == RecordKind.STEP]["loss"].tolist() == [3.0, 2.0]


def test_another_divisor_of_the_loss_is_a_part_of_the_loss(script: Script) -> None:
    for loss in (1.0, 3.0):
        script.forward(1)
        script.clock.add_loss(loss, divisor=20)
    script.optimize(1)
    rows = script.rows()
    assert rows[rows["kind"] == RecordKind.STEP]["loss"].tolist() == [2.0]


def test_a_forked_process_records_nothing(script: Script) -> None:
    script.clock.enabled = False
    assert not script.clock.observes
