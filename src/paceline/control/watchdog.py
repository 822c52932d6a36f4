"""Which workers make no progress: steps and time in, an alarm out. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from paceline.agent.lease import ActiveClock

LEAST_S = 10.0
STEPS = 10
"""A worker is stuck after this many times its own median step, and never before LEAST_S: slow is not stuck."""
ASIDE_S = 600.0
"""What is no step (an evaluation, a checkpoint, waiting for others to finish) may take this long."""
_RECENT_STEPS = 101


class Progress(msgspec.Struct, frozen=True):
    steps: int
    since_s: float
    """Since the last step was told of, or since the start."""
    aside: str | None = None


class Stalled(msgspec.Struct, frozen=True):
    """An alarm: workers that should have made a step by now."""

    tasks: tuple[str, ...]
    everyone: bool
    """Nobody else makes progress either, so that one may be to blame and the rest wait for it."""
    progress: dict[str, Progress]
    """Of all workers that are not done."""


class _Worker:
    def __init__(self, now_s: float) -> None:
        self.moved_s = now_s
        self.steps = 0
        self.aside: str | None = None
        self._durations_s: deque[float] = deque(maxlen=_RECENT_STEPS)

    def stepped(self, durations_s: Sequence[float], now_s: float) -> None:
        self.steps += len(durations_s)
        self._durations_s.extend(map(float, durations_s[-_RECENT_STEPS:]))
        self.moved_s = now_s

    def allowed_s(self, first_step_s: float, aside_s: float) -> float:
        if self.aside:
            return aside_s
        if not self._durations_s:
            return first_step_s
        return max(LEAST_S, STEPS * median(self._durations_s))


class Watchdog:
    """Watches workers from the opening of the barrier until they are done, or flagged.

    Workers of a synchronous run wait for each other: there is an alarm only when all of them have stopped, and none
    while one of them does something that takes long. Time passes only as far as someone looks (see ActiveClock).
    """

    def __init__(
        self, workers: Iterable[str], *, synchronous: bool, first_step_s: float, aside_s: float = ASIDE_S
    ) -> None:
        self._names, self._synchronous = tuple(workers), synchronous
        self._first_step_s, self._aside_s = first_step_s, aside_s
        self._attention = ActiveClock()
        self._workers: dict[str, _Worker] = {}

    def open(self, tasks: Iterable[str]) -> None:
        """The barrier is open: these workers have their first step to make, perhaps anew."""
        self._workers |= {task: _Worker(self._attention.now_s) for task in tasks if task in self._names}

    def stepped(self, task: str, durations_s: Sequence[float]) -> None:
        if (worker := self._workers.get(task)) and len(durations_s):
            worker.stepped(durations_s, self._attention.now_s)

    def aside(self, task: str, what: str | None) -> None:
        if worker := self._workers.get(task):
            worker.aside, worker.moved_s = what, self._attention.now_s

    def done(self, task: str) -> None:
        self._workers.pop(task, None)

    def look(self, now_s: float) -> Stalled | None:
        """To be called often; who is stuck, told once."""
        now = self._attention.look(now_s)
        late = {
            name
            for name, worker in self._workers.items()
            # Nobody is late before that, and the median is not for free.
            if now - worker.moved_s > LEAST_S
            and now - worker.moved_s > worker.allowed_s(self._first_step_s, self._aside_s)
        }
        if not late or (self._synchronous and late != self._workers.keys()):
            return None
        # News of them comes at different moments: who has been quiet for long stands still as well.
        quiet = {name for name in self._workers if name in late or self._is_quiet(self._workers[name], now)}
        everyone = quiet == self._workers.keys()
        late = quiet if everyone else late
        progress = {
            name: Progress(worker.steps, now - worker.moved_s, worker.aside) for name, worker in self._workers.items()
        }
        self._workers = {name: worker for name, worker in self._workers.items() if name not in late}
        return Stalled(tuple(sorted(late)), everyone, progress)

    def _is_quiet(self, worker: _Worker, now_s: float) -> bool:
        return not worker.aside and now_s - worker.moved_s > worker.allowed_s(self._first_step_s, self._aside_s) / 2
