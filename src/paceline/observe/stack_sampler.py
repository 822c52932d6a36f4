"""Samples the stack of a rank's main thread, some times per second, by phase.

A thread reads the stack. It only counts which code was found where; names and lines are looked up at the end, because
the script waits while the thread holds the interpreter.
"""

import os
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Iterator
from types import CodeType

from paceline.observe.step_clock import OTHER, PHASES, StepClock
from paceline.recording.folded_stacks import Stack
from paceline.train.context import SampledLine

_NAMES = {OTHER: "other", **{number: name for name, number in PHASES.items()}}
_MOST_LINES = 5
"""Lines that are reported of each phase."""
_MOST_FRAMES = 200
"""Frames of a stack, the innermost ones; more would be an endless recursion."""
_LIBRARIES = sorted(
    {os.path.realpath(path) + os.sep for name in ("purelib", "platlib", "stdlib", "platstdlib")
     if (path := sysconfig.get_path(name))},
    key=len, reverse=True,
)  # fmt: skip
"""The longest first: one may be inside of another."""
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_Key = tuple[int, ...]
"""A phase, then the id and the position in the bytecode of each frame's code, from the innermost frame."""


class StackSampler:
    """Counts stacks from `start` until `stop`. What happens before the first step is not counted."""

    def __init__(self, clock: StepClock, hz: float) -> None:
        self._clock, self._interval_s = clock, 1 / hz if hz else None
        self._main = threading.get_ident()
        self._counts: dict[_Key, int] = {}
        self._codes: dict[int, CodeType] = {}
        """By id, because hashing a code object takes long."""
        self._stopped = threading.Event()

    def start(self) -> None:
        if self._interval_s:
            threading.Thread(target=self._run, name="paceline-stacks", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def sample(self) -> None:
        """Count the stack of the main thread once."""
        codes, frame = self._codes, sys._current_frames().get(self._main)
        key = [self._clock.phase]
        while frame is not None and len(key) < 2 * _MOST_FRAMES:
            code = frame.f_code
            number = id(code)
            codes[number] = code
            key.append(number)
            key.append(frame.f_lasti)
            frame = frame.f_back
        stack = tuple(key)
        self._counts[stack] = self._counts.get(stack, 0) + 1

    def lines(self) -> tuple[SampledLine, ...]:
        """The lines of the user's own code in which each phase was most often.

        It is the innermost frame that is the user's own: a slow function of a library is found by the line that calls
        it.
        """
        totals: Counter[int] = Counter()
        lines: Counter[tuple[int, str]] = Counter()
        for stack, count in self._all().items():
            totals[stack[0]] += count
            own = next((frame for frame in self._frames(stack) if frame.is_users), None)
            if own:
                lines[stack[0], own.function + ", " + own.place] += count
        found, taken = [], Counter[int]()
        for (phase, where), count in lines.most_common():
            if taken[phase] < _MOST_LINES:
                taken[phase] += 1
                found.append(SampledLine(phase=_NAMES[phase], where=where, samples=count, of=totals[phase]))
        return tuple(found)

    def stacks(self) -> dict[Stack, int]:
        """How often each stack was found."""
        stacks: Counter[Stack] = Counter()
        for stack, count in self._all().items():
            frames = [frame.text for frame in self._frames(stack)]
            stacks[(_NAMES[stack[0]], *reversed(frames))] += count
        return stacks

    def _all(self) -> dict[_Key, int]:
        return self._counts.copy()

    def _frames(self, stack: _Key) -> Iterator["_Frame"]:
        """The frames from the innermost one, without those of Paceline, up to the module of the script."""
        for number, position in zip(stack[1::2], stack[2::2], strict=True):
            frame = _Frame(self._codes[number], position)
            if not frame.is_own:
                yield frame
            elif frame.runs_script:
                return

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            if self._clock.started and self._clock.enabled:
                self.sample()


class _Frame:
    """A frame as it is shown."""

    def __init__(self, code: CodeType, position: int) -> None:
        path = os.path.realpath(code.co_filename)
        self.is_own = path.startswith(_OWN)
        self.runs_script = self.is_own and code.co_name in ("run_script", "run_module")
        library = next((folder for folder in _LIBRARIES if path.startswith(folder)), None)
        self.is_users = not (self.is_own or library or code.co_filename.startswith("<"))
        self.function = code.co_name
        file = path.removeprefix(library) if library else os.path.basename(code.co_filename)
        # Of a library only the function counts: many lines of one function would hide what it is.
        self.place = f"{file}:{_line(code, position)}" if self.is_users else file

    @property
    def text(self) -> str:
        return f"{self.function} ({self.place})"


def _line(code: CodeType, position: int) -> int:
    for start, end, line in code.co_lines():
        if start <= position < end:
            return line or code.co_firstlineno
    return code.co_firstlineno
