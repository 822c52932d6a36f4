"""Ctrl-C as something to be asked about, instead of an exception somewhere in the middle."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """How often the user has pressed Ctrl-C, and how much of that has been acted on."""

    def __init__(self) -> None:
        self.pressed = 0
        self._taken = 0

    def press(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        self.pressed += 1

    def take(self) -> int:
        """Those that are new since the last call."""
        new, self._taken = self.pressed - self._taken, self.pressed
        return new


@contextmanager
def listen() -> Iterator[Interrupts]:
    """While inside, SIGINT and SIGTERM only count; outside the main thread there is nothing to listen to."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, interrupts.press)
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
