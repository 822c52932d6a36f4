"""Observes a function of a framework that writes a checkpoint."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from paceline.observe.step_clock import CHECKPOINT, OPTIMIZER, StepClock


def checkpoint_wrapper(original: Callable[..., Any], clock: StepClock) -> Callable[..., Any]:
    """The same function, whose time counts as writing a checkpoint."""

    @wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        if clock.phase > OPTIMIZER or not clock.observes:
            return original(*args, **kwargs)
        before = clock.enter(CHECKPOINT)
        try:
            return original(*args, **kwargs)
        finally:
            clock.record_checkpoint(before)

    return save
