"""Counts what a worker exchanges in its steps."""

from paceline.train.strategy import CountsExchange, Exchanged, WorkerStrategy


class ExchangeCount:
    """What a worker exchanged since this object was made, without a step that was begun but is not one of its steps.

    Such a step is the last one of a worker that learns only by the answer to its gradient that the run is over.
    """

    def __init__(self, strategy: WorkerStrategy) -> None:
        self._counter = strategy if isinstance(strategy, CountsExchange) else None
        self._first = self._at_step = self._now()
        self._discarded = Exchanged()

    def step_begins(self) -> None:
        if self._counter:
            self._at_step = self._now()

    def discard_step(self) -> None:
        """Leave out what was exchanged since the step began."""
        self._discarded = self._now().since(self._at_step)

    def total(self) -> Exchanged | None:
        """None if the strategy does not count what it exchanges."""
        return self._now().since(self._first).since(self._discarded) if self._counter else None

    def _now(self) -> Exchanged:
        exchanged = self._counter.exchanged if self._counter else Exchanged()
        return Exchanged(exchanged.sent, exchanged.received)
