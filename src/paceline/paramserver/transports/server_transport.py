"""Where a server takes requests and gives answers, whatever carries them."""

from collections.abc import Sequence
from typing import Protocol

from paceline.paramserver.wire import Buffer, Worker


class Unreachable(Exception):
    """A worker is gone, or asks on and on and takes no answers."""


class ServerTransport(Protocol):
    @property
    def address(self) -> str:
        """Where workers find it."""

    def next_sender(self) -> Worker:
        """Who sent the message that is next; waits for one."""

    def message(self) -> Sequence[Buffer]:
        """What was sent; WireError if it cannot be a request."""

    def answer(self, worker: Worker, head: bytes, values: Buffer) -> None:
        """Unreachable if it cannot be delivered: the others do not wait for one who is slow to take it."""

    def close(self) -> None: ...
