"""What a worker's connection to a server does, whatever carries it."""

import threading

from paceline.errors import PeersGone, RunError
from paceline.paramserver.wire import Buffer, Reply, Request

PATIENCE_MS = 600_000
LOOK_MS = 1_000
"""How long to wait for an answer before looking whether there is any sense in waiting on."""


class ServerConnection:
    """To one server. PeersGone if it is no longer there, or the controller wants this worker to let go of it."""

    def __init__(self, task: str, recalled: threading.Event) -> None:
        self.task = task
        self._recalled = recalled

    def send(self, request: Request, values: Buffer = b"") -> None:
        raise NotImplementedError

    def receive(self) -> tuple[Reply, Buffer]:
        raise NotImplementedError

    def close(self) -> None:
        """Once all that was sent is on its way."""
        raise NotImplementedError

    def abandon(self) -> None:
        """At once: nobody is there to take what was sent."""
        raise NotImplementedError

    def ask(self, request: Request, values: Buffer = b"") -> Reply:
        self.send(request, values)
        reply, _ = self.receive()
        return reply

    def heed_recall(self) -> None:
        if self._recalled.is_set():
            raise PeersGone(f"recalled from {self.task}")

    def no_answer(self) -> RunError:
        return RunError(f"no answer from {self.task} for {PATIENCE_MS // 1000} s")
