"""A training script whose every action takes a given time, for tests of the clocks that observe it."""

import math
from pathlib import Path

import numpy as np
import pytest

from paceline.observe import step_clock
from paceline.observe.event_clock import COMPUTED, EventClock
from paceline.observe.step_clock import (
    BACKWARD,
    CHECKPOINT,
    DATA,
    EVAL,
    EXCHANGE,
    FORWARD,
    OPTIMIZER,
    StepClock,
)
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
        self.clock = self._make_clock()

    def _make_clock(self) -> StepClock:
        return StepClock(self._recorder, self._start, self._step)

    def wait(self, ms: float) -> None:
        self.now += round(ms * MS)

    def load(self, ms: float, examples: int = 8) -> None:
        before = self.clock.enter_data()
        self.wait(ms)
        self.clock.leave_data(before, examples)

    def forward(self, ms: float, *, with_gradients: bool = True, examples: int = 0, exchange_ms: float = 0) -> None:
        """`examples`: what the module gets, which matters only if it is not known what was loaded."""
        before = self.clock.enter_forward(examples, with_gradients=with_gradients)
        self.wait(ms)
        if exchange_ms:
            self.exchange(exchange_ms)
        self.clock.leave(before)

    def backward(self, ms: float, exchange_ms: float = 0, loss: float | None = None) -> None:
        before = self.clock.enter_backward()
        if loss is not None:
            self.clock.add_loss(loss)
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


class TellingScript(Script):
    """The same script with a clock that is told about events, as the hooks of torch do it."""

    clock: EventClock

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, *, last_step: float = math.inf) -> None:
        self.last_step = last_step
        super().__init__(path, monkeypatch)

    def _make_clock(self) -> EventClock:
        return EventClock(self._recorder, self._start, self._step, lambda steps: self.last_step - steps)

    def load(self, ms: float, examples: int = 8) -> None:
        before = self._begin(DATA, is_due=self.now >= self.clock.flush_ns)
        self.wait(ms)
        if self.clock.has_batch:
            self.clock.needs_size = True
        self.clock.has_batch = True
        self._end(DATA, before, examples)

    def forward(self, ms: float, *, with_gradients: bool = True, examples: int = 0, exchange_ms: float = 0) -> None:
        phase = FORWARD if with_gradients else EVAL
        self.clock.has_batch = False
        before = self._begin(phase, examples if self.clock.needs_size else 0, is_due=phase == EVAL)
        self.wait(ms)
        if exchange_ms:
            self.exchange(exchange_ms)
        self._end(phase, before)

    def backward(self, ms: float, exchange_ms: float = 0, loss: float | None = None) -> None:
        before = self._begin(BACKWARD, None if loss is None else (loss, 1))
        self.wait(ms)
        if exchange_ms:
            self._tell(COMPUTED, BACKWARD)
            self.wait(exchange_ms)
        self._end(BACKWARD, before)

    def optimize(self, ms: float) -> None:
        before = self._begin(OPTIMIZER)
        self.wait(ms)
        self._end(OPTIMIZER, before)
        self.clock.steps_until_flush -= 1
        if self.now >= self.clock.flush_ns or self.clock.steps_until_flush <= 0:
            self.clock.flush()

    def exchange(self, ms: float) -> None:
        before, self.clock.phase = self.clock.phase, EXCHANGE
        self._tell(EXCHANGE, before)
        self.wait(ms)
        self._end(EXCHANGE, before)

    def _begin(self, phase: int, value: object = None, *, is_due: bool = False) -> int:
        before, self.clock.phase = self.clock.phase, phase
        self._tell(phase, before, value)
        if self.clock.undecided or is_due:
            self.clock.flush()
        return before

    def _end(self, phase: int, before: int, value: object = None) -> None:
        self._tell(~phase, before, value)
        self.clock.phase = before

    def _tell(self, kind: int, before: int, value: object = None) -> None:
        self.clock.events.append((kind, self.now, before, value))


def ms_by_kind(rows: np.ndarray, step: int) -> dict[str, float]:
    """Milliseconds of each kind of row with this step number."""
    found: dict[str, float] = {}
    for row in rows[rows["step"] == step]:
        name = RecordKind(row["kind"]).name.lower()
        found[name] = found.get(name, 0.0) + int(row["duration_ns"]) / MS
    return {name: ms for name, ms in found.items() if ms}
