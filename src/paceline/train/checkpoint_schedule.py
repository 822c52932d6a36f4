"""Decides at which updates the chief writes checkpoints. Pure."""

import math

from paceline.spec.interval import Interval


class CheckpointSchedule:
    """Checkpoints are announced one update in advance, because some strategies must prepare a snapshot."""

    def __init__(self, every: Interval | None) -> None:
        self._every = every
        self._due = math.inf
        self.announced = False

    def announce(self, update: int, seconds: float, *, at_once: bool = False) -> bool:
        """Whether a checkpoint is due at the next update; always True with `at_once`."""
        position = update + 1 if self._every and self._every.unit == "updates" else seconds
        self.announced = at_once or position >= self._due
        return self.announced

    def written(self, update: int, seconds: float) -> None:
        """A checkpoint was written, or training starts."""
        self.announced = False
        if self._every:
            now, step = (update if self._every.unit == "updates" else seconds), self._every.value
            # Multiples of the interval, so that resumed and uninterrupted runs write checkpoints at the same updates.
            self._due = (now // step + 1) * step if self._every.unit == "updates" else now + step
