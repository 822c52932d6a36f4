"""At which updates the chief leaves checkpoints. Pure."""

import math

from paceline.spec.interval import Interval


class CheckpointSchedule:
    """Each is announced an update before, since some strategies must know which state will be asked for."""

    def __init__(self, every: Interval | None) -> None:
        self._every = every
        self._due = math.inf
        self.announced = False

    def announce(self, update: int, seconds: float, *, at_once: bool = False) -> bool:
        """Whether the next update is one to leave a checkpoint at; it is if that is asked for `at_once`."""
        counted = update + 1 if self._every and self._every.unit == "updates" else seconds
        self.announced = at_once or counted >= self._due
        return self.announced

    def made(self, update: int, seconds: float) -> None:
        """A checkpoint was left, or the training begins, perhaps from one."""
        self.announced = False
        if self._every:
            now, step = (update if self._every.unit == "updates" else seconds), self._every.value
            # Updates are counted from the first, so that runs with and without a break leave the same ones.
            self._due = (now // step + 1) * step if self._every.unit == "updates" else now + step
