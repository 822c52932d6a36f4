"""How workers without a parameter server agree to stop: the chief broadcasts its decision from time to time.

All workers must take part in a broadcast at the same update. These are the updates at which the chief evaluates, which
every worker knows, and updates about 0.2 s apart, each of which the chief announces in the broadcast before.
"""

from collections.abc import Callable

from paceline.recording.recorder import clock_ns

_BROADCAST_EVERY_S = 0.2
Broadcast = Callable[[int, int], tuple[int, int]]
"""Broadcasts two numbers from the chief to all workers; the arguments of other workers are ignored."""


class StopConsensus:
    """`always_every`: all workers take part in a broadcast at the multiples of this number of updates; `every_s`: about
    how many seconds are between the others."""

    def __init__(self, broadcast: Broadcast, always_every: int | None, every_s: float = _BROADCAST_EVERY_S) -> None:
        self._broadcast = broadcast
        self._always_every, self._every_s = always_every, every_s
        self._next = 1
        self._last_update, self._last_ns = 0, clock_ns()

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        if update < self._next and not (self._always_every and update % self._always_every == 0):
            return False
        stop, self._next = self._broadcast(int(chief_wants_stop), self._next_broadcast(update))
        return bool(stop)

    def broadcast_at(self, update: int) -> None:
        """Broadcast at this update too. All workers must call it."""
        self._next = min(self._next, update)

    def _next_broadcast(self, update: int) -> int:
        """The update that is about `every_s` ahead, at the throughput since the last broadcast."""
        now = clock_ns()
        steps, elapsed = update - self._last_update, (now - self._last_ns) / 1e9
        self._last_update, self._last_ns = update, now
        steps_ahead = int(self._every_s * steps / elapsed) if elapsed > 0 else 1
        # At most twice the last distance: after a slow-down, the next broadcast must not be far away.
        return update + max(1, min(steps_ahead, 2 * steps))
