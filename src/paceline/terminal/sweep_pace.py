"""Estimates the remaining time of a sweep from the runs that it has made."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.control.progress import time_left_s
from paceline.control.run_state import RunState


class SweepPace:
    """Measures how long the runs of a sweep take, to estimate when all are done. One object serves all runs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._durations_s: list[float] = []

    @contextmanager
    def measure(self) -> Iterator[None]:
        """A run is made while the context is open, from the opening of its hosts to its stored result."""
        began_s = self._clock()
        yield
        self._durations_s.append(self._clock() - began_s)

    def left_s(self, state: RunState, remaining: int) -> float | None:
        """Seconds until this run and the `remaining` runs after it are done; None if nothing allows an estimate."""
        left_s = time_left_s(state) if state.opened_ns is not None else None
        if self._durations_s:
            usual_s = sum(self._durations_s) / len(self._durations_s)
            return (left_s if left_s is not None else max(0.0, usual_s - state.age_s)) + remaining * usual_s
        # The first run: the others will take as long as this one.
        return None if left_s is None else left_s + remaining * (state.age_s + left_s)
