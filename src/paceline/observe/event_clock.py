"""A clock of steps that hooks tell about events, which are accounted for later, many at once.

After a step of a model, little of this code is in the CPU caches, so every line that runs and every object that is
touched in each step costs several times what a tight loop would show (measure with `python -m bench hooks`). Hooks
therefore only add the time to a list. The accounting follows several times per second, for all steps since then.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from paceline.observe.step_clock import BACKWARD, DATA, EVAL, EXCHANGE, FORWARD, OPTIMIZER, StepClock
from paceline.recording.recorder import Recorder

COMPUTED = 100
"""The kind of the event that the gradients of a backward pass are computed."""
_FLUSH_NS = 50_000_000
"""Steps wait at most this long for the accounting, and until the next step or batch."""
_MOST_STEPS = 64

Event = tuple[int, int, int, Any]
"""The kind of the event, its time, the phase before it, and a value. The kind is COMPUTED, the number of a phase that
begins, or its bitwise complement where the phase ends.

The value is the number of examples of a forward pass and of a batch that was loaded (None: no batch was), and of a
backward pass the arguments for `add_loss` (None: the loss is not known).
"""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _after_events(method: _Method) -> _Method:
    """The same method, before which the events until now are accounted for."""

    @wraps(method)
    def call(self: "EventClock", *args: Any, **kwargs: Any) -> Any:
        if self.events:
            self.flush()
        return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]


class EventClock(StepClock):
    """Hooks that run at every step set `phase` and append to `events`; they call `flush` if it is due or the clock is
    `undecided`. All others call methods."""

    __slots__ = (
        "_after_steps", "_last_made", "_steps_left", "backward_passes", "events", "flush_ns", "has_batch",
        "steps_until_flush",
    )  # fmt: skip

    def __init__(
        self,
        recorder: Recorder,
        on_start: Callable[[], None],
        on_step: Callable[[int, int, int], None],
        steps_left: Callable[[int], float] = lambda _steps: math.inf,
    ) -> None:
        """`on_step` is called after the last of several steps that are accounted for at once: it gets the number of
        steps made until now. `steps_left` says after how many more steps it must be called."""
        super().__init__(recorder, on_start, self._step_made)
        self._after_steps, self._steps_left = on_step, steps_left
        self._last_made: tuple[int, int, int] | None = None
        self.events: list[Event] = []
        """Always the same list."""
        self.flush_ns = 0
        """From this time on, the next step or batch flushes."""
        self.steps_until_flush = 1
        self.backward_passes = 0
        """Those since the last step of an optimizer."""
        self.has_batch = False
        """Whether a batch was loaded since the last forward pass. If another one is loaded then, hooks set
        `needs_size`, because sizes matter before these events are accounted for."""

    def flush(self) -> None:
        """Account for all events until now."""
        events = self.events.copy()
        self.events.clear()
        phase = self.phase
        try:
            for event in events:
                self._account(*event)
        finally:
            self.phase, self._replayed_ns = phase, 0
        self.flush_ns = self._since + _FLUSH_NS
        self.steps_until_flush = int(max(1, min(_MOST_STEPS, self._steps_left(self.steps))))
        made, self._last_made = self._last_made, None
        if made:
            self._after_steps(*made)

    def _step_made(self, steps: int, started_ns: int, ended_ns: int) -> None:
        if self._replayed_ns:
            self._last_made = (steps, started_ns, ended_ns)
        else:
            self._after_steps(steps, started_ns, ended_ns)

    def _account(self, kind: int, at_ns: int, before: int, value: Any) -> None:
        self._replayed_ns = at_ns
        if kind == COMPUTED:
            self.gradients_computed()
        elif kind >= 0:
            self.phase = before
            self._begin(kind, value)
        else:
            self.phase = ~kind
            self._end(~kind, before, value)

    def _begin(self, phase: int, value: Any) -> None:
        if phase == FORWARD:
            self.enter_forward(value, with_gradients=True)
        elif phase == DATA:
            self.enter_data()
        elif phase == BACKWARD:
            self.enter_backward()
            if value is not None:
                self.add_loss(*value)
        elif phase == OPTIMIZER:
            self.enter_optimizer()
        elif phase == EVAL:
            self.enter_forward(value, with_gradients=False)
        else:
            self.enter(phase)

    def _end(self, phase: int, before: int, value: Any) -> None:
        if phase == DATA and value is not None:
            self.leave_data(before, value)
        elif phase == BACKWARD:
            self.leave_backward(before)
        elif phase == OPTIMIZER:
            self.leave_optimizer(before)
        elif phase == EXCHANGE:
            self.leave_exchange(before)
        else:
            self.leave(before)

    enter = _after_events(StepClock.enter)
    leave = _after_events(StepClock.leave)
    enter_data = _after_events(StepClock.enter_data)
    enter_phase = _after_events(StepClock.enter_phase)
    leave_exchange = _after_events(StepClock.leave_exchange)
    set_metrics = _after_events(StepClock.set_metrics)
    record_checkpoint = _after_events(StepClock.record_checkpoint)
    record_evaluation = _after_events(StepClock.record_evaluation)
    end_step = _after_events(StepClock.end_step)
    finish = _after_events(StepClock.finish)
