"""A worker's connections to all parameter servers of a run, over the run's transport."""

import threading

import zmq

from paceline.errors import PeersGone
from paceline.paramserver.transports.connection import ServerConnection
from paceline.paramserver.transports.pipe_transport import PipeConnection
from paceline.paramserver.transports.zmq_transport import ZmqConnection
from paceline.plan.roles import SERVER, task_names
from paceline.train.context import Job, Peers, TaskContext


class ServerConnections(list[ServerConnection]):
    """One connection per server, in the order of the servers."""

    def __init__(self, context: TaskContext, peers: Peers) -> None:
        super().__init__()
        self._sockets: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            for name in task_names(SERVER, context.job.servers):
                address = peers[name]["parameters"]
                self.append(self._connect(name, address, context.job, context.rendezvous.disconnect_requested))
        except PeersGone:
            self.abandon()
            raise

    def close(self) -> None:
        """Close all connections after everything that was sent is delivered."""
        for connection in self:
            connection.close()
        self._sockets.term()

    def abandon(self) -> None:
        """Close all connections at once, without delivering what was sent."""
        for connection in self:
            connection.abandon()
        self._sockets.term()

    def _connect(self, task: str, address: str, job: Job, disconnect: threading.Event) -> ServerConnection:
        if job.transport == "memory":
            return PipeConnection(task, address, job, disconnect)
        return ZmqConnection(self._sockets, task, address, job, disconnect)
