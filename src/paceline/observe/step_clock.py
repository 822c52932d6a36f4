"""Divides the time of a training script into steps and phases, from what hooks in its framework report.

Time is counted exclusively: while one phase is inside of another, such as an all-reduce inside of a forward pass, only
the inner phase counts. A step ends when the outermost optimizer has made its step; the next one begins there.

The code is called several times in every step of the user's script, so it avoids calls and allocations.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

from paceline.recording.layout import RecordKind
from paceline.recording.recorder import Recorder, clock_ns

OTHER, OPTIMIZER, DATA, FORWARD, BACKWARD, EXCHANGE, EVAL, CHECKPOINT = range(8)
"""Phases. In the first two a forward pass or the loading of a batch may begin; in all others it is a part of them. In
the first five an exchange may begin."""
PHASES = {
    "data": DATA, "forward": FORWARD, "backward": BACKWARD, "exchange": EXCHANGE, "optimizer": OPTIMIZER,
    "eval": EVAL, "checkpoint": CHECKPOINT,
}  # fmt: skip
"""By the name that users give to `paceline.observe.phase`."""
_MAX_EXCHANGES = 64
"""Exchanges of one step that get records of their own; the rest is added to the last of them."""
_MAX_BATCHES = 64
"""Batches that may be loaded before the forward pass that uses them."""
_TEACHER_PASSES = 2
"""Forward passes without gradients on a batch that is then trained on; more are an evaluation."""
_NAN = math.nan


class StepClock:
    """The clock of one rank. Only the thread that made it is observed."""

    def __init__(self, recorder: Recorder, on_start: Callable[[], None], on_step: Callable[[], None]) -> None:
        """`on_start` is called when the first step begins to compute, `on_step` after each step."""
        self._recorder, self._on_start, self._on_step = recorder, on_start, on_step
        self._thread = threading.get_ident()
        self.enabled = True
        self.started = False
        self.steps = 0
        self.started_ns = self.ended_ns = 0
        self.manual = False
        """Whether the script says itself where its steps end."""
        self.phase = OTHER
        self.loss = _NAN
        """Of the last step whose loss was seen."""
        self.loss_was_seen = False
        self.scaled_loss: tuple[Any, Any] = (None, None)
        """What a gradient scaler has made of the loss, and the loss itself."""
        self.missed = 0
        """Backward passes of which the loss or the exchange could not be observed."""
        self.spawned = False
        """Whether the script has started further processes by torch.multiprocessing."""
        self._since = clock_ns()
        self._spent = [0] * 8
        self._first = [0] * 8
        self._start_ns = self._since
        self._exchanges: list[tuple[int, int]] = []
        self._sizes: list[int] = []
        """Examples of batches that were loaded and not used yet."""
        self._loads_batches = False
        self._examples = self._micro_batches = 0
        self._loss_sum, self._losses = 0.0, 0
        # The segment since the loading of the last batch began: whether it is training or evaluation shows later.
        self._segment_ns = self._since
        self._segment_spent = self._spent.copy()
        self._segment_exchanges = 0
        self._segment_loaded = False
        self._eval_passes = 0
        self._eval_start_ns = self._eval_ns = 0
        self._eval_loss = self._eval_accuracy = _NAN

    @property
    def observes(self) -> bool:
        """Whether what the current thread does now is observed."""
        return self.enabled and threading.get_ident() == self._thread

    def enter(self, phase: int) -> int:
        """Begin a phase; returns the phase that it interrupts, for `leave`."""
        now, before = clock_ns(), self.phase
        self._spent[before] += now - self._since
        if not self._first[phase]:
            self._first[phase] = now
        self.phase, self._since = phase, now
        return before

    def leave(self, before: int) -> None:
        """End the phase that the last `enter` began."""
        now = clock_ns()
        self._spent[self.phase] += now - self._since
        self.phase, self._since = before, now

    def enter_data(self) -> int:
        """Begin to load a batch. If the batch before was only evaluated on, all since then was an evaluation."""
        before = self.enter(DATA)
        if self._eval_passes:
            self._count_as_evaluation(self._since)
        self._segment_ns, self._segment_spent = self._since, self._spent.copy()
        self._segment_exchanges, self._segment_loaded, self._eval_passes = len(self._exchanges), True, 0
        return before

    def loaded(self, examples: int) -> None:
        """A batch was loaded; 0 if its size is not known."""
        self._loads_batches = True
        if len(self._sizes) < _MAX_BATCHES:
            self._sizes.append(examples)

    def enter_forward(self, examples: int, *, with_gradients: bool) -> int:
        """Begin a forward pass. `examples` counts only in scripts that do not use a data loader."""
        size = self._sizes.pop(0) if self._sizes else 0 if self._loads_batches else examples
        if not with_gradients:
            if not self._eval_passes:
                self._recorder.set_busy(RecordKind.EVAL)
            self._eval_passes += 1
            return self.enter(EVAL)
        before = self.enter(FORWARD)
        self._train()
        self._examples += size
        return before

    def enter_backward(self) -> int:
        before = self.enter(BACKWARD)
        self._train()
        self._micro_batches += 1
        return before

    def enter_optimizer(self) -> int:
        before = self.enter(OPTIMIZER)
        self._train()
        return before

    def enter_phase(self, phase: int) -> int:
        """Begin a phase that the script names itself."""
        before = self.enter(phase)
        if phase not in (EVAL, CHECKPOINT, EXCHANGE):
            self._train()
        return before

    def leave_exchange(self, before: int) -> None:
        start_ns = self._since
        self.leave(before)
        self._add_exchange(start_ns, self._since - start_ns)

    def exchanged_since(self, start_ns: int, nested_ns: int) -> None:
        """The current phase, of which `nested_ns` were other exchanges already, only exchanged since `start_ns`."""
        now = clock_ns()
        waited_ns = now - start_ns - nested_ns
        if waited_ns > 0:
            self._spent[self.phase] -= waited_ns
            self._spent[EXCHANGE] += waited_ns
            self._add_exchange(start_ns, waited_ns)

    @property
    def exchange_ns(self) -> int:
        """Time of all exchanges of the step so far."""
        return self._spent[EXCHANGE]

    def take_scaled_loss(self) -> tuple[Any, Any]:
        """Returns and forgets `scaled_loss`, which keeps the graph of the step in memory."""
        pair, self.scaled_loss = self.scaled_loss, (None, None)
        return pair

    def add_loss(self, value: float) -> None:
        self._loss_sum += value
        self._losses += 1

    def set_metrics(self, loss: float | None, accuracy: float | None) -> None:
        """Metrics that the script reports itself: of an evaluation if one is under way, else of the step."""
        if self._eval_passes or self._eval_ns or self.phase == EVAL:
            self._eval_loss = self._eval_loss if loss is None else loss
            self._eval_accuracy = self._eval_accuracy if accuracy is None else accuracy
        elif loss is not None:
            self._loss_sum, self._losses = loss, 1

    def record_checkpoint(self, before: int) -> None:
        """End a checkpoint. It is a record of its own and no part of a step or an evaluation."""
        start_ns, duration_ns = self._leave_step(before)
        if self.started:
            self._recorder.write(RecordKind.CHECKPOINT, start_ns, duration_ns)

    def record_evaluation(self, before: int) -> None:
        """End an evaluation of which the script or its framework says when it begins and ends."""
        start_ns, duration_ns = self._leave_step(before)
        if self.started:
            self._write_evaluation(start_ns, duration_ns)

    def _leave_step(self, before: int) -> tuple[int, int]:
        """End work that is no part of the step under way; returns its start and its duration."""
        start_ns, now = self._since, clock_ns()
        self.phase, self._since = before, now
        self._start_ns += now - start_ns
        self._segment_ns += now - start_ns
        return start_ns, now - start_ns

    def end_step(self, examples: int | None = None) -> None:
        """End the step under way, now."""
        self._train()
        now = clock_ns()
        spent, first, record = self._spent, self._first, self._recorder.current
        spent[self.phase] += now - self._since
        self._since = now
        record.start_ns, record.data_end_ns = self._start_ns, self._start_ns + spent[DATA]
        if spent[FORWARD]:
            record.forward_start_ns, record.forward_end_ns = first[FORWARD], first[FORWARD] + spent[FORWARD]
        if spent[BACKWARD]:
            record.backward_start_ns, record.backward_end_ns = first[BACKWARD], first[BACKWARD] + spent[BACKWARD]
        if spent[OPTIMIZER]:
            record.optimizer_start_ns, record.optimizer_end_ns = first[OPTIMIZER], first[OPTIMIZER] + spent[OPTIMIZER]
        if self._exchanges:
            self._record_exchanges()
        record.examples = self._examples if examples is None else examples
        record.micro_batches = self._micro_batches
        loss = self._loss_sum / self._losses if self._losses else _NAN
        if self._losses:
            self.loss, self.loss_was_seen = loss, True
        self.steps += 1
        self.ended_ns = now
        self._recorder.end_step(now, self.steps, loss)
        self._begin_step(now)
        self._on_step()

    def finish(self) -> None:
        """Record an evaluation that no step followed, after the script has ended."""
        if self._eval_passes:
            self._count_as_evaluation(clock_ns())
        if self._eval_ns:
            self._record_evaluation()
        self._recorder.set_busy(0)

    def _begin_step(self, now: int) -> None:
        self._start_ns = self._segment_ns = now
        self._spent, self._first = [0] * 8, [0] * 8
        self._segment_spent, self._segment_exchanges, self._segment_loaded = [0] * 8, 0, False
        if self._exchanges:
            self._exchanges = []
        self._examples = self._micro_batches = self._losses = self._eval_passes = 0
        self._loss_sum = 0.0

    def _train(self) -> None:
        """The script trains: decide what the forward passes without gradients before were."""
        if self._eval_passes:
            if self._segment_loaded and self._eval_passes <= _TEACHER_PASSES:
                passes_ns = self._spent[EVAL] - self._segment_spent[EVAL]
                self._spent[EVAL] -= passes_ns
                self._spent[FORWARD] += passes_ns
                self._first[FORWARD] = self._first[FORWARD] or self._segment_ns
            else:
                self._count_as_evaluation(self._since)
            self._eval_passes = 0
            self._recorder.set_busy(0)
        if self._eval_ns:
            self._record_evaluation()
        if not self.started:
            self._start()

    def _start(self) -> None:
        """The first step begins with the loading of its batch; all before was preparation."""
        self.started = True
        if self._segment_loaded:
            self._spent = [now - then for now, then in zip(self._spent, self._segment_spent, strict=True)]
            self._start_ns = self._segment_ns
        else:
            self._spent, self._start_ns = [0] * 8, self._since
        self._exchanges = []
        self.started_ns = self._start_ns
        self._on_start()

    def _count_as_evaluation(self, now: int) -> None:
        """Everything since the segment began was an evaluation."""
        if not self._eval_ns:
            self._eval_start_ns = self._segment_ns
        self._eval_ns += now - self._segment_ns
        self._spent = self._segment_spent.copy()
        del self._exchanges[self._segment_exchanges :]
        self._segment_ns, self._since = now, now
        self._eval_passes = 0

    def _record_evaluation(self) -> None:
        if self.started:
            self._write_evaluation(self._eval_start_ns, self._eval_ns)
        # The step under way does not contain the evaluation.
        self._start_ns += self._eval_ns
        self._eval_ns = 0
        self._recorder.set_busy(0)

    def _write_evaluation(self, start_ns: int, duration_ns: int) -> None:
        self._recorder.write(
            RecordKind.EVAL, start_ns, duration_ns,
            update=self.steps, loss=self._eval_loss, accuracy=self._eval_accuracy,
        )  # fmt: skip
        self._eval_loss = self._eval_accuracy = _NAN

    def _add_exchange(self, start_ns: int, duration_ns: int) -> None:
        if len(self._exchanges) < _MAX_EXCHANGES:
            self._exchanges.append((start_ns, duration_ns))
        else:
            last_ns, before_ns = self._exchanges[-1]
            self._exchanges[-1] = (last_ns, before_ns + duration_ns)

    def _record_exchanges(self) -> None:
        """The first exchange of a step is a part of its record, the others have their own."""
        (start_ns, duration_ns), *others = self._exchanges
        record = self._recorder.current
        record.exchange_start_ns, record.exchange_end_ns = start_ns, start_ns + duration_ns
        for start_ns, duration_ns in others:
            self._recorder.write(RecordKind.EXCHANGE, start_ns, duration_ns)
