"""A worker's access to the rows of a sparse model that are distributed over several servers.

It needs no ML framework: an engine passes row indices and gradients as NumPy arrays.
"""

from collections.abc import Sequence

import numpy as np

from paceline.data.batches import Array
from paceline.paramserver.norm_exchange import add_up_norms
from paceline.paramserver.row_buffers import Indices, WorkerRowBuffers
from paceline.paramserver.transports.connection import ServerConnection
from paceline.paramserver.wire import Buffer, Op, Reply, Request
from paceline.train.strategy import Exchanged
from paceline.workloads.parameters import Vector, shards


class RowClient:
    """Pulls and pushes rows as if there were one server: each row goes to the server whose shard contains it."""

    def __init__(
        self, connections: list[ServerConnection], buffers: WorkerRowBuffers, size: int, *, adds_up_norms: bool = False
    ) -> None:
        """`adds_up_norms`: whether this worker adds up the norms of the servers' parts of a clipped gradient."""
        self._adds_up_norms = adds_up_norms
        self._connections, self._buffers, self._shards = connections, buffers, shards(size, len(connections))
        self._positions: list[Array] = []
        """For each server, the positions of its rows among the rows requested last; unused with one server."""
        self._versions = [0] * len(connections)
        """For each server, the update count of the rows that it returned last."""
        self.exchanged = Exchanged()

    def start(self, replies: Sequence[Reply]) -> int:
        """The number of updates so far, from the servers' replies to START.

        A worker that was killed between two pushes finds the servers at different updates when it is restarted: the
        lowest number counts.
        """
        updates = min(reply.update for reply in replies)
        self._versions = [updates] * len(self._connections)
        return updates

    def pull(self, indices: Indices) -> Vector:
        """The current values of these rows; the next pull or push may overwrite them."""
        self._positions = self._split_by_server(indices)
        self.exchanged.sent += indices.nbytes
        for server, server_indices in enumerate(self._indices_in_shards(indices)):
            payload = self._buffers.pull_payload(server, server_indices)
            self._connections[server].send(Request(Op.PULL_ROWS, bucket=server_indices.size), payload)
        return self._receive_rows(indices.size)[1]

    def push(self, gradient: Vector, next_indices: Indices) -> tuple[list[Reply], Vector]:
        """Push the gradient of the rows requested last; returns the replies and the rows at `next_indices`."""
        gradients = [gradient] if self._has_one_server else [gradient[positions] for positions in self._positions]
        self._positions = self._split_by_server(next_indices)
        self.exchanged.sent += gradient.nbytes + next_indices.nbytes
        for server, server_indices in enumerate(self._indices_in_shards(next_indices)):
            payload = self._buffers.push_payload(server, gradients[server], server_indices)
            request = Request(Op.PUSH_ROWS, self._versions[server], server_indices.size)
            self._connections[server].send(request, payload)
        if self._adds_up_norms:
            add_up_norms(self._connections)
        return self._receive_rows(next_indices.size)

    @property
    def _has_one_server(self) -> bool:
        return len(self._connections) == 1

    def _split_by_server(self, indices: Indices) -> list[Array]:
        """For each server, the positions in `indices` of the rows that are in its shard."""
        if self._has_one_server:
            return []
        return [np.flatnonzero((indices >= shard.start) & (indices < shard.stop)) for shard in self._shards]

    def _indices_in_shards(self, indices: Indices) -> list[Indices]:
        """For each server, the indices of its rows, counted from the start of its shard."""
        if self._has_one_server:
            return [indices]
        pairs = zip(self._positions, self._shards, strict=True)
        return [indices[positions] - np.int32(shard.start) for positions, shard in pairs]

    def _receive_rows(self, count: int) -> tuple[list[Reply], Vector]:
        self.exchanged.received += 4 * count
        if self._has_one_server:
            reply, payload = self._receive(0)
            return [reply], self._buffers.reply_rows(0, count, payload)
        all_rows, replies = np.zeros(count, np.float32), []
        for server, positions in enumerate(self._positions):
            reply, payload = self._receive(server)
            rows = self._buffers.reply_rows(server, positions.size, payload)
            if rows.size:  # A reply that ends the run carries no rows.
                all_rows[positions] = rows
            replies.append(reply)
        return replies, all_rows

    def _receive(self, server: int) -> tuple[Reply, Buffer]:
        reply, payload = self._connections[server].receive()
        self._versions[server] = reply.update
        return reply, payload
