"""Whether the other side of a pipe still speaks, seen fairly: who was away himself may not blame the other for it."""

MOST_BETWEEN_LOOKS_S = 1.0


class ActiveClock:
    """Seconds by a clock that all but stands still while nobody looks at it.

    A process that was held up (stopped, swapped out, on a busy machine) finds what was said meanwhile only
    afterwards. However long it was away, that counts as no more than one look.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._last_s: float | None = None

    def look(self, now_s: float) -> float:
        if self._last_s is not None:
            self.now_s += min(now_s - self._last_s, MOST_BETWEEN_LOOKS_S)
        self._last_s = now_s
        return self.now_s


class Lease:
    """Renewed by every word of the other side."""

    def __init__(self) -> None:
        self._attention = ActiveClock()
        self._heard_s = 0.0

    def renew(self) -> None:
        self._heard_s = self._attention.now_s

    def silent_s(self, now_s: float) -> float:
        """How long nothing was heard, as far as anyone listened. To be asked about once a second or more often."""
        return self._attention.look(now_s) - self._heard_s
