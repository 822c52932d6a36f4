"""A worker's connections to all servers."""

import threading

import zmq

from paceline.engines.torch.link import ServerLink
from paceline.engines.torch.pipes import PipeLink
from paceline.engines.torch.sockets import SocketLink
from paceline.errors import PeersGone
from paceline.train.context import Job, Peers, TaskContext


class ServerLinks(list[ServerLink]):
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

    def _to(self, task: str, address: str, job: Job, recalled: threading.Event) -> ServerLink:
        if job.transport == "memory":
            return PipeLink(task, address, job, recalled)
        return SocketLink(self._sockets, task, address, job, recalled)
