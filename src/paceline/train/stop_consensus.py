"""How workers without a server agree to stop: the chief broadcasts its wish now and then.

All workers must broadcast at the same updates. These are the updates at which the chief evaluates, which
everyone knows, and others some time apart, which the chief announces in the broadcast before.
"""

from collections.abc import Callable

from paceline.recording.recorder import clock_ns

_SECONDS_BETWEEN = 0.2
Broadcast = Callable[[int, int], tuple[int, int]]
"""Takes the chief's two numbers (ignored from others) and gives them to everyone."""


class StopConsensus:
    def __init__(self, broadcast: Broadcast, eval_every: int | None) -> None:
        self._broadcast = broadcast
        self._eval_every = eval_every
        self._next = 1
        self._last_update, self._last_ns = 0, clock_ns()

    def stop_now(self, mine: bool, update: int) -> bool:
        if update < self._next and not (self._eval_every and update % self._eval_every == 0):
            return False
        stop, self._next = self._broadcast(int(mine), self._propose(update))
        return bool(stop)

    def _propose(self, update: int) -> int:
        """The update that will come about 0.2 s from now, at the pace since the last broadcast."""
        now = clock_ns()
        steps, elapsed = update - self._last_update, (now - self._last_ns) / 1e9
        self._last_update, self._last_ns = update, now
        ahead = int(_SECONDS_BETWEEN * steps / elapsed) if elapsed > 0 else 1
        # At most double the known stretch: a slow-down must not make the chief deaf for long.
        return update + max(1, min(ahead, 2 * steps))
