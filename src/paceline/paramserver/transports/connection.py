"""The interface of a worker's connection to one server, common to all transports."""

import threading

from paceline.errors import PeersGone
from paceline.paramserver.wire import Buffer, Reply, Request

REPLY_TIMEOUT_MS = 600_000
"""How long a worker waits for a reply before the run fails. Long, because in ps-sync a reply waits for the slowest
worker."""
POLL_MS = 1_000
"""How often a waiting worker checks whether the server is gone or the controller wants it to disconnect."""


class ServerConnection:
    """A connection to one server.

    Its methods raise PeersGone if the server is gone, or if the controller wants this worker to disconnect from it.
    """

    def __init__(self, task: str, disconnect: threading.Event) -> None:
        self.task = task
        self._disconnect = disconnect

    def send(self, request: Request, values: Buffer = b"") -> None:
        raise NotImplementedError

    def receive(self) -> tuple[Reply, Buffer]:
        """The next reply and its payload; waits for it."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection after everything that was sent is delivered."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Close the connection at once, without delivering what was sent: the server is gone."""
        raise NotImplementedError

    def request(self, request: Request, values: Buffer = b"") -> Reply:
        """Send a request and wait for its reply."""
        self.send(request, values)
        reply, _ = self.receive()
        return reply

    def raise_if_disconnected(self) -> None:
        if self._disconnect.is_set():
            raise PeersGone(f"the controller disconnected this worker from {self.task}")

    def timeout_error(self) -> PeersGone:
        return PeersGone(f"no reply from {self.task} for {REPLY_TIMEOUT_MS // 1000} s")
