"""The interface through which a server receives requests and sends replies, common to all transports."""

from collections.abc import Sequence
from typing import Protocol

from paceline.paramserver.wire import Buffer, WorkerName


class Unreachable(Exception):
    """A worker is gone, or sends requests without reading the replies."""


class ServerTransport(Protocol):
    @property
    def address(self) -> str:
        """The address to which workers connect."""

    def next_sender(self) -> WorkerName:
        """The sender of the next request; waits until there is one."""

    def read_request(self) -> Sequence[Buffer]:
        """The frames of the request whose sender `next_sender` returned; WireError if it cannot be a request."""

    def send_reply(self, worker: WorkerName, header: bytes, values: Buffer) -> None:
        """Send without blocking, so that a worker that reads slowly delays no other; Unreachable if it is gone."""

    def close(self) -> None: ...
