"""How busy a server is, noted a few times a second."""

from paceline.train.recorder import Kind, Recorder, clock_ns

_STRETCH_NS = 100_000_000


class Diary:
    """A record for each stretch of time, with how much of it the server was busy."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._since = self._mark = clock_ns()
        self._busy_ns = 0

    def idle(self) -> None:
        """Until now there was nothing to do."""
        self._mark = clock_ns()
        if self._mark - self._since > _STRETCH_NS:
            self._write(self._mark)

    def busy(self) -> None:
        """Since the last mark there was."""
        now = clock_ns()
        self._busy_ns += now - self._mark
        self._mark = now
        if now - self._since > _STRETCH_NS:
            self._write(now)

    def close(self) -> None:
        self._write(clock_ns())
        # The end of the last stretch.
        self._write(self._since)

    def _write(self, now: int) -> None:
        self._recorder.write(Kind.SERVE, self._since, self._busy_ns)
        self._since, self._busy_ns = now, 0
