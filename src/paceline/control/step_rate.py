"""The steps per second of one worker over the last seconds of real time: the rate of a worker that stops falls to 0."""

from collections import deque

WINDOW_S = 2.0
"""Seconds over which a rate is computed; longer for a worker whose steps take about that long."""
_STEPS_IN_WINDOW = 2
"""A window is at least as long as this many steps of the worker."""
SHIPMENT_S = 1.5
"""Agents send records about once a second. Only a longer silence means that no step has ended."""


class StepRate:
    """Is told when steps ended, on the clock of the worker's host, and when they were received, on our own clock."""

    def __init__(self, since_ns: int) -> None:
        self._ends: deque[tuple[int, int]] = deque()
        """(time, steps until then) after each batch of records, and at the start of the first step."""
        self._window_ns = WINDOW_S * 1e9
        self._received_ns = since_ns

    def add(self, start_ns: int, end_ns: int, steps: int, received_ns: int) -> None:
        """`steps` steps were made from `start_ns` to `end_ns`."""
        if not self._ends:
            self._ends.append((start_ns, 0))
        self._ends.append((end_ns, self._ends[-1][1] + steps))
        step_ns = max(0, end_ns - start_ns) / steps
        self._window_ns = max(WINDOW_S * 1e9, _STEPS_IN_WINDOW * step_ns)
        # The last entry before the window stays, because the window begins between it and the next one.
        while len(self._ends) > 2 and self._ends[1][0] <= end_ns - self._window_ns:
            self._ends.popleft()
        self._received_ns = received_ns

    def restart(self, now_ns: int) -> None:
        """The worker begins to train again: what it has not done before does not count as silence."""
        self._received_ns = max(self._received_ns, now_ns)

    def per_s(self, now_ns: int) -> float:
        if not self._ends:
            return 0.0
        end = self._ends[-1][0] + self._idle_ns(now_ns)
        start = max(self._ends[0][0], end - self._window_ns)
        return (self._ends[-1][1] - self._steps_until(start)) / (end - start) * 1e9 if end > start else 0.0

    def stalled_s(self, now_ns: int) -> float | None:
        """Seconds without a step, if that is longer than the window; else None."""
        stalled = self._idle_ns(now_ns) >= self._window_ns
        return (now_ns - self._received_ns) / 1e9 if stalled else None

    def _idle_ns(self, now_ns: int) -> float:
        return max(0.0, now_ns - self._received_ns - SHIPMENT_S * 1e9)

    def _steps_until(self, moment_ns: float) -> float:
        """Steps until this moment, as if those of one batch of records had taken equally long."""
        before = self._ends[0]
        for after in list(self._ends)[1:]:
            if after[0] >= moment_ns:
                share = (moment_ns - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 1.0
                return before[1] + share * (after[1] - before[1])
            before = after
        return before[1]
