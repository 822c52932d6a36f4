"""Counts requests to end the run for the control loop to poll, instead of raising KeyboardInterrupt at any line."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from paceline.control.events import INTERRUPTED_BY_USER

_HANG_UP = getattr(signal, "SIGHUP", None)
"""The signal that a process gets when its terminal is closed; None on a system without it."""
_STANDARD_STREAMS = (0, 1, 2)


_REASONS = {signal.SIGTERM: "ended by SIGTERM", _HANG_UP: "ended because its terminal was closed"}


class Interrupts:
    """Requests to end the run, and which of them the control loop has not handled yet."""

    def __init__(self) -> None:
        self.received = 0
        self._new: list[str] = []
        self._hung_up = False
        self._raises = False

    def count(self, number: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
        self.received += 1
        self._new.append(_REASONS.get(number, INTERRUPTED_BY_USER))
        if self._raises:
            raise KeyboardInterrupt

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise KeyboardInterrupt in the context, for work that polls nothing, such as waiting for hosts."""
        if self.received:
            raise KeyboardInterrupt
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def hang_up(self, number: int, _frame: FrameType | None = None) -> None:
        """Count a closed terminal once: the shell and the kernel may both send the signal, but a second request would
        end the run at once, without a checkpoint."""
        if not self._hung_up:
            self._hung_up = True
            self.count(number)

    def take_new(self) -> list[str]:
        """The reasons of the requests since the last call."""
        new, self._new = self._new, []
        return new


@contextmanager
def count_interrupts() -> Iterator[Interrupts]:
    """Count SIGINT, SIGTERM and the loss of the terminal inside the context.

    Python delivers signals only to the main thread: in another thread the count stays 0.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    handlers: dict[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGINT: interrupts.count,
        signal.SIGTERM: interrupts.count,
    }
    # A run under nohup, which ignores SIGHUP, goes on without its terminal.
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:
        terminals = [stream for stream in _STANDARD_STREAMS if os.isatty(stream)]

        def hang_up(number: int, frame: FrameType | None) -> None:
            interrupts.hang_up(number, frame)
            _replace_lost_terminals(terminals)

        handlers[_HANG_UP] = hang_up
    previous = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        yield interrupts
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)


def _replace_lost_terminals(streams: list[int]) -> None:
    """Connect streams whose terminal is gone to the null device: otherwise the next progress line fails with EIO."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        for stream in streams:
            if not os.isatty(stream):
                os.dup2(null, stream)
        os.close(null)
