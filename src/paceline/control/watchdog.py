"""Detects workers that make no progress. It does no I/O and reads no clock: the caller passes steps and time."""

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from paceline.messages.lease import ActiveClock

MIN_STALL_S = 10.0
STALL_STEPS = 10
"""A worker is stuck when it has made no step for STALL_STEPS times its own median step, and for at least MIN_STALL_S.
A slow host therefore never counts as stuck."""
BUSY_S = 600.0
"""Limit for work between steps: an evaluation, a checkpoint, waiting for other workers to finish."""
_RECENT_STEPS = 101


class Progress(msgspec.Struct, frozen=True):
    steps: int
    since_s: float
    """Seconds since the last sign of progress: a step, begin or end of an evaluation or checkpoint, or the start."""

    busy: str | None = None


class Stalled(msgspec.Struct, frozen=True):
    """An alarm: these workers are stuck."""

    tasks: tuple[str, ...]
    everyone: bool
    """Whether all remaining workers have stopped: then one task may be the cause while the others wait for it."""
    progress: dict[str, Progress]
    """Progress of every worker that is still watched."""


class _Worker:
    def __init__(self, now_s: float) -> None:
        self.last_progress_s = now_s
        self.steps = 0
        self.busy: str | None = None
        self._durations_s: deque[float] = deque(maxlen=_RECENT_STEPS)

    def add_steps(self, durations_s: Sequence[float], now_s: float) -> None:
        self.steps += len(durations_s)
        self._durations_s.extend(map(float, durations_s[-_RECENT_STEPS:]))
        self.last_progress_s = now_s

    def allowed_s(self, first_step_s: float, busy_s: float, min_stall_s: float) -> float:
        if self.busy:
            return busy_s
        if not self._durations_s:
            return first_step_s
        return max(min_stall_s, STALL_STEPS * median(self._durations_s))


class Watchdog:
    """Watches workers from the opening of the barrier until they finish or are reported as stuck.

    Workers of a synchronous run wait for each other, so an alarm is raised only when all of them have stopped, and not
    while one of them evaluates or writes a checkpoint. A pause of the controller
    itself does not count as silence of workers (ActiveClock).
    """

    def __init__(
        self,
        workers: Iterable[str],
        *,
        synchronous: bool,
        first_step_s: float,
        busy_s: float = BUSY_S,
        min_stall_s: float | None = None,
    ) -> None:
        """`min_stall_s`: after how long without a step a worker may be stuck, however short its steps are."""
        self._names, self._synchronous = tuple(workers), synchronous
        self.first_step_s, self._busy_s = first_step_s, busy_s
        self._min_stall_s = MIN_STALL_S if min_stall_s is None else min_stall_s
        self._clock = ActiveClock()
        self._workers: dict[str, _Worker] = {}

    def open(self, tasks: Iterable[str]) -> None:
        """The barrier opened for these workers: their first step, or the first after a restart, is due."""
        self._workers |= {task: _Worker(self._clock.now_s) for task in tasks if task in self._names}

    def add_steps(self, task: str, durations_s: Sequence[float]) -> None:
        if (worker := self._workers.get(task)) and len(durations_s):
            worker.add_steps(durations_s, self._clock.now_s)

    def busy(self, task: str, what: str | None) -> None:
        if worker := self._workers.get(task):
            worker.busy, worker.last_progress_s = what, self._clock.now_s

    def done(self, task: str) -> None:
        self._workers.pop(task, None)

    def check(self, now_s: float) -> Stalled | None:
        """Call this often. Returns each stuck worker once."""
        now = self._clock.tick(now_s)
        late = {
            name
            for name, worker in self._workers.items()
            # Checked first because the median costs time.
            if now - worker.last_progress_s > min(self._min_stall_s, self.first_step_s)
            and now - worker.last_progress_s > self._allowed_s(worker)
        }
        if not late or (self._synchronous and late != self._workers.keys()):
            return None
        # Reports of workers arrive at different times: a worker silent for half of its limit counts as stopped too.
        quiet = {name for name in self._workers if name in late or self._is_quiet(self._workers[name], now)}
        everyone = quiet == self._workers.keys()
        late = quiet if everyone else late
        progress = {
            name: Progress(worker.steps, now - worker.last_progress_s, worker.busy)
            for name, worker in self._workers.items()
        }
        self._workers = {name: worker for name, worker in self._workers.items() if name not in late}
        return Stalled(tuple(sorted(late)), everyone, progress)

    def _is_quiet(self, worker: _Worker, now_s: float) -> bool:
        return not worker.busy and now_s - worker.last_progress_s > self._allowed_s(worker) / 2

    def _allowed_s(self, worker: _Worker) -> float:
        return worker.allowed_s(self.first_step_s, self._busy_s, self._min_stall_s)
