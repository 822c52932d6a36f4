"""Divides the time of a training script into steps and phases, from what hooks in its framework report.

Time is counted exclusively: while one phase is inside of another, such as an all-reduce inside of a forward pass, only
the inner phase counts. A step ends when the outermost optimizer has made its step; the next one begins there.
"""

import math
from collections.abc import Callable
from threading import get_ident
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
NO_BATCH = -1
"""Instead of the number of examples: what a module gets is not a batch, but the output of another one."""
_TEACHER_PASSES = 2
"""Forward passes without gradients on a batch that is then trained on; more are an evaluation."""
_NAN = math.nan
_ZEROS = [0] * 8
"""Never changed."""
_NO_THREAD = -1


class StepClock:
    """The clock of one rank. Only the thread that made it is observed. Lines are repeated, because calls take time."""

    __slots__ = (
        "_computed_exchange_ns", "_computed_ns", "_divisor", "_eval_accuracy", "_eval_loss", "_eval_ns",
        "_eval_passes", "_eval_start_ns", "_examples", "_exchanges", "_first", "_loads_ahead", "_loss_sum", "_losses",
        "_on_start", "_on_step", "_own_thread", "_recorder", "_replayed_ns", "_segment_exchanges", "_segment_loaded",
        "_segment_ns", "_segment_spent", "_since", "_sizes", "_spent", "_start_ns", "accumulation", "ended_ns", "loss",
        "loss_was_seen", "manual", "micro_batches", "missed", "needs_size", "phase", "scaled_loss", "spawned",
        "started", "started_ns", "steps", "thread", "undecided",
    )  # fmt: skip

    def __init__(
        self, recorder: Recorder, on_start: Callable[[], None], on_step: Callable[[int, int, int], None]
    ) -> None:
        """`on_start` is called when the first step begins to compute, `on_step` after each step: with the number of
        steps, the start of the first and the end of the last one."""
        self._recorder, self._on_start, self._on_step = recorder, on_start, on_step
        self._own_thread = get_ident()
        self.thread = self._own_thread
        """The thread that is observed now; none if observation is switched off."""
        self.started = False
        self.steps = 0
        self.started_ns = self.ended_ns = 0
        self.manual = False
        """Whether the script says itself where its steps end."""
        self.phase = OTHER
        self.loss = _NAN
        """Of the last step whose loss was seen."""
        self.loss_was_seen = False
        self.scaled_loss: tuple[Any, Any] | None = None
        """What a gradient scaler has made of the loss, and the loss itself."""
        self.missed = 0
        """Backward passes of which the loss or the exchange could not be observed."""
        self.spawned = False
        """Whether the script has started ranks of its own in other processes."""
        self.needs_size = True
        """Whether `enter_forward` needs the size of the batch. It is known if a data loader has loaded one batch."""
        self.micro_batches = 0
        """Backward passes of the step under way."""
        self.accumulation = 1
        """Micro-batches of a step by whose number the script divides the loss."""
        self._replayed_ns = 0
        """The time of what is told now, if it is told later than it was; else 0."""
        self._since = clock_ns()
        self._spent = _ZEROS.copy()
        self._first = _ZEROS.copy()
        self._start_ns = self._since
        self._exchanges: list[tuple[int, int]] = []
        self._sizes: list[int] = []
        """Examples of batches that were loaded and not used yet."""
        self._loads_ahead = False
        self._examples = 0
        self._loss_sum, self._losses, self._divisor = 0.0, 0, 1
        self._computed_ns = self._computed_exchange_ns = 0
        """When the gradients of the backward pass under way were computed, and the exchange time until then."""
        # The segment since the loading of the last batch began: whether it is training or evaluation shows later.
        self._segment_ns = self._since
        self._segment_spent = _ZEROS
        self._segment_exchanges = 0
        self._segment_loaded = False
        self.undecided = True
        """Whether `_train` has anything to do."""
        self._eval_passes = 0
        self._eval_start_ns = self._eval_ns = 0
        self._eval_loss = self._eval_accuracy = _NAN

    @property
    def enabled(self) -> bool:
        return self.thread != _NO_THREAD

    @enabled.setter
    def enabled(self, on: bool) -> None:
        self.thread = self._own_thread if on else _NO_THREAD

    @property
    def observes(self) -> bool:
        """Whether what the current thread does now is observed."""
        return get_ident() == self.thread

    def enter(self, phase: int) -> int:
        """Begin a phase; returns the phase that it interrupts, for `leave`."""
        now, before = self._replayed_ns or clock_ns(), self.phase
        self._spent[before] += now - self._since
        if not self._first[phase]:
            self._first[phase] = now
        self.phase, self._since = phase, now
        return before

    def leave(self, before: int) -> None:
        """End the phase that the last `enter` began."""
        now = self._replayed_ns or clock_ns()
        self._spent[self.phase] += now - self._since
        self.phase, self._since = before, now

    def enter_data(self) -> int:
        """Begin to load a batch. If the batch before was only evaluated on, all since then was an evaluation."""
        now, before = self._replayed_ns or clock_ns(), self.phase
        self._spent[before] += now - self._since
        self.phase, self._since = DATA, now
        if self._eval_passes:
            self._count_as_evaluation(now)
        self._segment_ns, self._segment_spent = now, self._spent.copy()
        self._segment_exchanges, self._segment_loaded, self._eval_passes = len(self._exchanges), True, 0
        return before

    def leave_data(self, before: int, examples: int) -> None:
        """A batch was loaded; 0 examples if its size is not known."""
        now = self._replayed_ns or clock_ns()
        self._spent[DATA] += now - self._since
        sizes = self._sizes
        self.phase, self._since = before, now
        sizes.append(examples)
        if len(sizes) > 1:
            self._loads_ahead = True
            if len(sizes) > _MAX_BATCHES:
                del sizes[0]
        self.needs_size = self._loads_ahead

    def enter_forward(self, examples: int, *, with_gradients: bool) -> int:
        """Begin a forward pass on so many examples, or on the output of another one (NO_BATCH).

        The size matters only if `needs_size`: if batches come from no data loader, or if several were loaded and not
        used yet, because they are loaded ahead or never used.
        """
        sizes = self._sizes
        if not self.needs_size:
            examples = sizes.pop() if sizes else 0
        elif examples == NO_BATCH:
            examples = 0
        elif sizes:
            examples = sizes.pop(sizes.index(examples) if examples in sizes else 0)
        elif self._loads_ahead:
            examples = 0
        if not with_gradients:
            return self._enter_pass_without_gradients()
        now, before = self._replayed_ns or clock_ns(), self.phase
        self._spent[before] += now - self._since
        self.phase, self._since = FORWARD, now
        if not self._first[FORWARD]:
            self._first[FORWARD] = now
        if self.undecided:
            self._train()
        self._examples += examples
        return before

    def enter_backward(self) -> int:
        now, before = self._replayed_ns or clock_ns(), self.phase
        self._spent[before] += now - self._since
        self.phase, self._since = BACKWARD, now
        if not self._first[BACKWARD]:
            self._first[BACKWARD] = now
        if self.undecided:
            self._train()
        self.micro_batches += 1
        self._computed_ns = 0
        return before

    def gradients_computed(self) -> None:
        """The rest of the backward pass only waits for the exchange that the computation did not hide."""
        self._computed_ns = self._replayed_ns or clock_ns()
        self._computed_exchange_ns = self._spent[EXCHANGE]

    def leave_backward(self, before: int) -> None:
        now, spent = self._replayed_ns or clock_ns(), self._spent
        spent[BACKWARD] += now - self._since
        self.phase, self._since = before, now
        if self._computed_ns:
            waited_ns = now - self._computed_ns - (spent[EXCHANGE] - self._computed_exchange_ns)
            if waited_ns > 0:
                spent[BACKWARD] -= waited_ns
                spent[EXCHANGE] += waited_ns
                self._add_exchange(self._computed_ns, waited_ns)

    def enter_optimizer(self) -> int:
        now, before = self._replayed_ns or clock_ns(), self.phase
        self._spent[before] += now - self._since
        self.phase, self._since = OPTIMIZER, now
        if not self._first[OPTIMIZER]:
            self._first[OPTIMIZER] = now
        if self.undecided:
            self._train()
        return before

    def leave_optimizer(self, before: int) -> None:
        """End the phase and, unless the script says itself where steps end, the step."""
        now = self._replayed_ns or clock_ns()
        self._spent[OPTIMIZER] += now - self._since
        self.phase, self._since = before, now
        if not self.manual:
            self._end_step(now, self._examples)

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

    def add_loss(self, value: float, divisor: int = 1) -> None:
        """Add the loss of a micro-batch, which the script has divided by `divisor`."""
        self._loss_sum += value
        self._losses += 1
        self._divisor = divisor

    def set_metrics(self, loss: float | None, accuracy: float | None) -> None:
        """Metrics that the script reports itself: of an evaluation if one is under way, else of the step."""
        if self._eval_passes or self._eval_ns or self.phase == EVAL:
            self._eval_loss = self._eval_loss if loss is None else loss
            self._eval_accuracy = self._eval_accuracy if accuracy is None else accuracy
        elif loss is not None:
            self._loss_sum, self._losses, self._divisor = loss, 1, 1

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
        """End the step under way, now. `examples` counts instead of what was seen."""
        if self.undecided:
            self._train()
        now = self._replayed_ns or clock_ns()
        self._spent[self.phase] += now - self._since
        self._since = now
        self._end_step(now, self._examples if examples is None else examples)

    def _end_step(self, now: int, examples: int) -> None:
        spent, first, start_ns = self._spent, self._first, self._start_ns
        exchange_ns = exchange_end_ns = 0
        if self._exchanges:
            exchange_ns, exchange_end_ns = self._exchanges[0]
            exchange_end_ns += exchange_ns
            if len(self._exchanges) > 1:
                self._record_exchanges()
            self._exchanges = []
        loss = _NAN
        if self._losses:
            loss = self._loss_sum / self._losses
            if self._divisor > 1:
                if self._divisor == self._losses:
                    self.accumulation = self._losses
                if self._divisor == self.accumulation:
                    loss *= self._divisor
            self.loss, self.loss_was_seen = loss, True
        if not (examples or first[FORWARD]):  # The forward pass of a compiled function is not seen.
            examples = sum(self._sizes.pop(0) for _ in range(min(len(self._sizes), self.micro_batches)))
        self.steps = steps = self.steps + 1
        forward_ns, backward_ns, optimizer_ns = first[FORWARD], first[BACKWARD], first[OPTIMIZER]
        self._recorder.write_script_step(
            steps, start_ns, now, loss, examples, self.micro_batches, start_ns + spent[DATA],
            forward_ns, forward_ns + spent[FORWARD], backward_ns, backward_ns + spent[BACKWARD],
            exchange_ns, exchange_end_ns, optimizer_ns, optimizer_ns + spent[OPTIMIZER],
        )  # fmt: skip
        self.ended_ns = self._start_ns = self._segment_ns = now
        spent[:] = first[:] = self._segment_spent = _ZEROS
        self._segment_loaded = False
        self._loss_sum = 0.0
        self._examples = self.micro_batches = self._losses = self._eval_passes = self._segment_exchanges = 0
        self._on_step(steps, self.started_ns, now)

    def finish(self) -> None:
        """Record an evaluation that no step followed, after the script has ended."""
        if self._eval_passes:
            self._count_as_evaluation(clock_ns())
        if self._eval_ns:
            self._record_evaluation()
        self._recorder.set_busy(0)

    def _enter_pass_without_gradients(self) -> int:
        """Whether it is a part of an evaluation shows later."""
        if not self._eval_passes:
            self._recorder.set_busy(RecordKind.EVAL)
        self._eval_passes += 1
        self.undecided = True
        return self.enter(EVAL)

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
        self.undecided = False

    def _start(self) -> None:
        """The first step begins with the loading of its batch; all before was preparation."""
        self.started = True
        if self._segment_loaded:
            self._spent = [now - then for now, then in zip(self._spent, self._segment_spent, strict=True)]
            self._start_ns = self._segment_ns
        else:
            self._spent, self._start_ns = _ZEROS.copy(), self._since
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
        self._eval_passes, self.undecided = 0, True

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
        """The first exchange is a part of the record of the step; the others have their own."""
        for start_ns, duration_ns in self._exchanges[1:]:
            self._recorder.write(RecordKind.EXCHANGE, start_ns, duration_ns)
