"""Samples which line of the user's code a rank is in, some times per second, by phase.

A thread reads the stack of the main thread. It takes the innermost frame that is the user's own: a slow function of a
library is found by the line that calls it.
"""

import os
import sys
import sysconfig
import threading
from collections import Counter
from types import CodeType, FrameType

from paceline.observe.step_clock import OTHER, PHASES, StepClock
from paceline.train.context import SampledLine

_NAMES = {OTHER: "other", **{number: name for name, number in PHASES.items()}}
_MOST_LINES = 5
"""Lines that are reported of each phase."""
_LIBRARIES = tuple(
    {os.path.realpath(path) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
     if (path := sysconfig.get_path(name))}
)  # fmt: skip
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class StackSampler:
    """Counts lines from `start` until `stop`. What happens before the first step is not counted."""

    def __init__(self, clock: StepClock, hz: float) -> None:
        self._clock, self._interval_s = clock, 1 / hz if hz else None
        self._main = threading.get_ident()
        self._counts: Counter[tuple[int, CodeType | None, int]] = Counter()
        self._is_users: dict[CodeType, bool] = {}
        self._stopped = threading.Event()

    def start(self) -> None:
        if self._interval_s:
            threading.Thread(target=self._sample, name="paceline-stacks", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def lines(self) -> tuple[SampledLine, ...]:
        """The lines in which each phase was most often."""
        totals: Counter[int] = Counter()
        for (phase, _, _), count in self._counts.items():
            totals[phase] += count
        found, taken = [], Counter[int]()
        for (phase, code, line), count in self._counts.most_common():
            if code is not None and taken[phase] < _MOST_LINES:
                taken[phase] += 1
                where = f"{code.co_name}, {os.path.basename(code.co_filename)}:{line}"
                found.append(SampledLine(phase=_NAMES[phase], where=where, samples=count, of=totals[phase]))
        return tuple(found)

    def _sample(self) -> None:
        while not self._stopped.wait(self._interval_s):
            if not self._clock.started:
                continue
            phase, frame = self._clock.phase, sys._current_frames().get(self._main)
            while frame is not None and not self._belongs_to_user(frame):
                frame = frame.f_back
            self._counts[(phase, frame.f_code, frame.f_lineno) if frame else (phase, None, 0)] += 1

    def _belongs_to_user(self, frame: FrameType) -> bool:
        code = frame.f_code
        known = self._is_users.get(code)
        if known is None:
            file = code.co_filename
            path = os.path.realpath(file)
            known = not (file.startswith("<") or path.startswith(_LIBRARIES) or path.startswith(_OWN))
            self._is_users[code] = known
        return known
