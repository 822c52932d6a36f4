"""The clock of a script's steps: what hooks report becomes step records whose phases add up to the step."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from paceline.observe import step_clock
from paceline.observe.step_clock import CHECKPOINT, EXCHANGE, NO_BATCH, StepClock
from paceline.recording.layout import RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder
from paceline.recording.rows import decode

MS = 1_000_000


class Script:
    """A training script whose every action takes a given number of milliseconds, on a clock of its own."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000 * MS
        monkeypatch.setattr(step_clock, "clock_ns", lambda: self.now)
        self.started = self.steps = 0
        self._path, self._recorder = path, Recorder(path)
        self.clock = StepClock(self._recorder, self._start, self._step)

    def wait(self, ms: float) -> None:
        self.now += round(ms * MS)

    def load(self, ms: float, examples: int = 8) -> None:
        before = self.clock.enter_data()
        self.wait(ms)
        self.clock.leave_data(before, examples)

    def forward(self, ms: float, *, with_gradients: bool = True, examples: int = 0) -> None:
        """`examples`: what the module gets, which matters only if it is not known what was loaded."""
        before = self.clock.enter_forward(examples, with_gradients=with_gradients)
        self.wait(ms)
        self.clock.leave(before)

    def backward(self, ms: float, exchange_ms: float = 0) -> None:
        before = self.clock.enter_backward()
        self.wait(ms)
        if exchange_ms:
            self.clock.gradients_computed()
            self.wait(exchange_ms)
        self.clock.leave_backward(before)

    def optimize(self, ms: float) -> None:
        before = self.clock.enter_optimizer()
        self.wait(ms)
        self.clock.leave_optimizer(before)

    def exchange(self, ms: float) -> None:
        before = self.clock.enter(EXCHANGE)
        self.wait(ms)
        self.clock.leave_exchange(before)

    def save(self, ms: float) -> None:
        before = self.clock.enter(CHECKPOINT)
        self.wait(ms)
        self.clock.record_checkpoint(before)

    def rows(self) -> np.ndarray:
        self.clock.finish()
        rows = decode(RecordReader(self._path).new())
        self._recorder.close()
        return rows

    def _start(self) -> None:
        self.started += 1

    def _step(self, steps: int, _started_ns: int, _ended_ns: int) -> None:
        self.steps = steps


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    return Script(tmp_path / "records", monkeypatch)  # type: ignore[return-value]


def ms_by_kind(rows: np.ndarray, step: int) -> dict[str, float]:
    """Milliseconds of each kind of row with this step number."""
    found: dict[str, float] = {}
    for row in rows[rows["step"] == step]:
        name = RecordKind(row["kind"]).name.lower()
        found[name] = found.get(name, 0.0) + int(row["duration_ns"]) / MS
    return {name: ms for name, ms in found.items() if ms}


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
