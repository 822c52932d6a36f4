"""Counts Ctrl-C presses for the control loop to poll, instead of raising KeyboardInterrupt at an arbitrary line."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Number of SIGINT and SIGTERM signals received, and how many of them the control loop has handled."""

    def __init__(self) -> None:
        self.received = 0
        self._handled = 0

    def count(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        self.received += 1

    def take_new(self) -> int:
        """The number of signals since the last call."""
        new, self._handled = self.received - self._handled, self.received
        return new


@contextmanager
def count_interrupts() -> Iterator[Interrupts]:
    """Count SIGINT and SIGTERM inside the context.

    Python delivers signals only to the main thread: in another thread the count stays 0.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, interrupts.count)
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
