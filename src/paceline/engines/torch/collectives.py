"""A worker of `paceline bench-collectives`: it times collective operations of gloo, and of the parameter server."""

from collections.abc import Callable
from time import perf_counter

import msgspec
import numpy as np
import torch
import torch.distributed as dist

from paceline.engines.torch.process_group import join_process_group
from paceline.paramserver.collectives_server import buckets_of
from paceline.paramserver.transports.connections import ServerConnections
from paceline.paramserver.wire import Op, Request
from paceline.train.collectives import GIVE_UP_AFTER, Operation, Order, Times
from paceline.train.context import Outcome, TaskContext


def run(context: TaskContext) -> Outcome:
    """Measure every operation with every size, together with the other workers."""
    torch.set_num_threads(1)
    peers = join_process_group(context)
    connections = ServerConnections(context, peers)
    context.rendezvous.start_together()
    try:
        times = Worker(Order.of(context.job), connections).measure()
        for connection in connections:
            connection.send(Request(Op.DONE))
    finally:
        connections.close()
    dist.destroy_process_group()
    return Outcome(details={"times": msgspec.json.encode(times).decode()})


class Worker:
    def __init__(self, order: Order, connections: ServerConnections) -> None:
        self._order, (self._server,) = order, connections
        self._vector = np.zeros(max(order.sizes) // 4, np.float32)
        self._tensor = torch.from_numpy(self._vector)
        self._buckets = buckets_of(order.sizes)

    def measure(self) -> Times:
        operations: dict[Operation, Callable[[int], None]] = {
            "all-reduce": lambda size: dist.all_reduce(self._tensor[: size // 4]),
            "broadcast": lambda size: dist.broadcast(self._tensor[: size // 4], src=0),
            "pull": self._pull,
            "push+pull": self._push,
        }
        return {name: self._measure_sizes(operation) for name, operation in operations.items()}

    def _measure_sizes(self, operation: Callable[[int], None]) -> dict[int, list[float]]:
        """The times of all sizes, up to the first that takes too long."""
        times = {}
        for size in self._order.sizes:
            operation(size)  # Connections and buffers are made at first use.
            longest_s = torch.tensor([_seconds(operation, size)], dtype=torch.float64)
            dist.all_reduce(longest_s, op=dist.ReduceOp.MAX)  # All workers must repeat equally often.
            times[size] = [_seconds(operation, size) for _ in range(self._order.repeats(longest_s.item()))]
            if longest_s.item() > GIVE_UP_AFTER * self._order.budget_s:
                break
        return times

    def _pull(self, size: int) -> None:
        for number, _ in self._buckets[size]:
            self._server.send(Request(Op.PULL, bucket=number))
        self._receive(size)

    def _push(self, size: int) -> None:
        for number, part in self._buckets[size]:
            self._server.send(Request(Op.PUSH, bucket=number), self._vector[part])
        self._receive(size)

    def _receive(self, size: int) -> None:
        """Store the values of all buckets, as a worker does in training."""
        parts = dict(self._buckets[size])
        for _ in parts:
            reply, payload = self._server.receive()
            self._vector[parts[reply.bucket]] = np.frombuffer(payload, np.float32)


def _seconds(operation: Callable[[int], None], size: int) -> float:
    """How long the operation takes, when all workers begin at the same time."""
    dist.barrier()
    start = perf_counter()
    operation(size)
    return perf_counter() - start
