"""Measures how long the other side of a pipe has been silent.

Time counts only while this process was running: after a pause of its own it must not blame the other side.
"""

MAX_TICK_S = 1.0
"""The most that one `tick` adds to an `ActiveClock`, so callers must tick at least this often."""


class ActiveClock:
    """A clock that advances by at most `MAX_TICK_S` for each call of `tick`.

    A process that was paused (stopped, swapped out, on an overloaded machine) reads the messages that arrived
    meanwhile only after the pause. However long the pause was, it counts as no more than one tick.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._last_tick_s: float | None = None

    def tick(self, now_s: float) -> float:
        """Advance to `now_s` of the real clock, by at most `MAX_TICK_S`; returns the new `self.now_s`."""
        if self._last_tick_s is not None:
            self.now_s += min(now_s - self._last_tick_s, MAX_TICK_S)
        self._last_tick_s = now_s
        return self.now_s


class Lease:
    """Measures the time since the last message; call `renew` for every message from the other side."""

    def __init__(self) -> None:
        self._clock = ActiveClock()
        self._renewed_s = 0.0

    def renew(self) -> None:
        self._renewed_s = self._clock.now_s

    def silent_s(self, now_s: float) -> float:
        """Seconds since the last `renew`, pauses of this process excluded. Call it at least every `MAX_TICK_S`."""
        return self._clock.tick(now_s) - self._renewed_s
