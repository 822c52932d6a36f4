"""Says to Paceline what cannot be seen from outside of a training loop. Without `paceline launch` it does nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

from paceline.observe.step_clock import CHECKPOINT, DATA, EVAL, EXCHANGE, PHASES, StepClock

_clock: StepClock | None = None


def connect(clock: StepClock) -> None:
    """Report to this clock from now on. For Paceline itself."""
    global _clock
    _clock = clock


def step(*, loss: float | None = None, examples: int | None = None) -> None:
    """A step of the training loop ends here.

    From the first call on, steps end only here: the steps of optimizers are not counted any more.
    """
    clock = _clock
    if clock is None or not clock.observes:
        return
    clock.manual = True
    if loss is not None:
        clock.set_metrics(float(loss), None)
    clock.end_step(examples)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """The time inside belongs to a phase: data, forward, backward, exchange, optimizer, eval or checkpoint."""
    if name not in PHASES:
        raise ValueError(f"there is no phase '{name}': choose from {', '.join(PHASES)}")
    clock = _clock
    if clock is None or not clock.observes:
        yield
        return
    kind = PHASES[name]
    special = {CHECKPOINT: clock.record_checkpoint, EXCHANGE: clock.leave_exchange, EVAL: clock.record_evaluation}
    leave = special.get(kind, clock.leave)
    before = clock.enter_data() if kind == DATA else clock.enter_phase(kind)
    try:
        yield
    finally:
        leave(before)


def metric(*, loss: float | None = None, accuracy: float | None = None) -> None:
    """The loss of this step; inside of an evaluation, the loss and the accuracy of the evaluation."""
    if _clock is not None and _clock.observes:
        _clock.set_metrics(None if loss is None else float(loss), None if accuracy is None else float(accuracy))
