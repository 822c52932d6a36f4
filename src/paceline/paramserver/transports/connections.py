"""A worker's connections to all servers."""

import threading

import zmq

from paceline.errors import PeersGone
from paceline.paramserver.transports.connection import ServerConnection
from paceline.paramserver.transports.pipe_transport import PipeConnection
from paceline.paramserver.transports.zmq_transport import ZmqConnection
from paceline.train.context import Job, Peers, TaskContext


class ServerConnections(list[ServerConnection]):
    """In the servers' order."""

    def __init__(self, context: TaskContext, peers: Peers) -> None:
        super().__init__()
        self._sockets: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            for name in (f"ps{number}" for number in range(context.job.servers)):
                self.append(self._to(name, peers[name]["parameters"], context.job, context.rendezvous.recalled))
        except PeersGone:
            self.abandon()
            raise

    def close(self) -> None:
        """Once all that was sent is on its way."""
        for link in self:
            link.close()
        self._sockets.term()

    def abandon(self) -> None:
        """At once: nobody is there to take what was sent."""
        for link in self:
            link.abandon()
        self._sockets.term()

    def _to(self, task: str, address: str, job: Job, recalled: threading.Event) -> ServerConnection:
        if job.transport == "memory":
            return PipeConnection(task, address, job, recalled)
        return ZmqConnection(self._sockets, task, address, job, recalled)
