"""Sums the gradients of the allreduce workers: through gloo, or through shared memory between workers of one host.

With shared memory, each worker writes its gradients into its own segment, announces each complete bucket with a small
gloo allreduce, and adds up the segments of all workers when that allreduce is complete. Every worker adds in the order
of ranks, so all get the same bits. Even steps use one half of the segment and odd steps the other. A half is written
again only two steps later, after an allreduce of the step in between; a worker takes part in that allreduce only after
it has read the half. So no worker overwrites gradients that another one still reads.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch
import torch.distributed as dist

from paceline.engines.torch.network import Network
from paceline.paramserver.transports.shared_memory import SEGMENT, Segment, map_peer_vector
from paceline.plan.roles import WORKER, task_names
from paceline.train.context import Job, Peers
from paceline.train.strategy import Exchanged

_MIN_SHARED_BYTES = 2**20
"""The size from which on a bucket is summed through shared memory. With a smaller bucket, most of the time goes into
waking the other workers, which shared memory does not save."""
SumFuture: TypeAlias = "torch.futures.Future[torch.Tensor]"
"""Completes with the summed gradients of a bucket."""
GradientViews = dict[torch.Tensor, torch.Tensor]
"""For each parameter, the part of a segment that holds its gradient, as a tensor."""


class Exchange(Protocol):
    exchanged: Exchanged

    def begin(self) -> None:
        """Prepare for a step."""

    def sum(self, bucket: dist.GradBucket) -> SumFuture:
        """A future of the sum of all workers' gradients of this bucket."""


class GlooExchange:
    """Sums every bucket with an allreduce of gloo."""

    def __init__(self, workers: int) -> None:
        self._workers, self.exchanged = workers, Exchanged()

    def begin(self) -> None:
        """Do nothing: gloo needs no preparation."""

    def sum(self, bucket: dist.GradBucket) -> SumFuture:
        self.exchanged.add_allreduce(bucket.buffer().nbytes, self._workers)
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(_first_tensor)


class SharedMemoryExchange:
    """Sums large buckets through shared memory, the others through gloo."""

    def __init__(self, job: Job, network: Network) -> None:
        self._job, self._network = job, network
        self._size = network.vector.size
        self._segment = Segment(2 * self._size)
        self._gloo = GlooExchange(job.workers)
        self.exchanged = self._gloo.exchanged
        self._half = 0
        self._in_segment: dict[torch.Tensor, bool] = {}
        """For each parameter, whether backward writes its gradient into the segment; the others must be copied."""
        self._halves: list[list[GradientViews]] = []
        """For each half of the segments and each rank, the views of the gradients."""

    @property
    def address(self) -> dict[str, str]:
        """The path of this worker's segment, to be announced to the other workers."""
        return {SEGMENT: self._segment.path}

    def map_peers(self, peers: Peers) -> None:
        """Map the segments of all workers."""
        paths = [peers[task][SEGMENT] for task in task_names(WORKER, self._job.workers)]
        vectors = [map_peer_vector(path, 2 * self._size).reshape(2, -1) for path in paths]
        tensors = self._network.tensors
        self._halves = [
            [dict(zip(tensors, self._network.tensor_views(vector[half]), strict=True)) for vector in vectors]
            for half in (0, 1)
        ]

    def begin(self) -> None:
        self._half = 1 - self._half
        own_views = self._halves[self._half][self._job.index]
        in_segment = self._network.redirect_gradients(list(own_views.values()))
        self._in_segment = dict(zip(own_views, in_segment, strict=True))

    def sum(self, bucket: dist.GradBucket) -> SumFuture:
        if 4 * bucket.buffer().numel() < _MIN_SHARED_BYTES and not any(map(self._in_segment.get, bucket.parameters())):
            return self._gloo.sum(bucket)
        ranks = self._halves[self._half]
        # Every worker reads the gradients of all others.
        shared = bucket.buffer().nbytes * (self._job.workers - 1)
        self.exchanged.sent += shared
        self.exchanged.received += shared
        to_add = []
        for tensor, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            rank_gradients = [views[tensor] for views in ranks]
            if not self._in_segment[tensor]:
                rank_gradients[self._job.index].copy_(gradient)
            to_add.append((gradient, rank_gradients))
        all_announced = dist.all_reduce(torch.zeros(1), async_op=True).get_future()
        return all_announced.then(_make_add(bucket.buffer(), to_add))


def _make_add(
    buffer: torch.Tensor, to_add: list[tuple[torch.Tensor, list[torch.Tensor]]]
) -> Callable[[Any], torch.Tensor]:
    """A callback that adds up the gradients of all ranks, for each pair of a result tensor and these gradients."""

    def add(all_announced: Any) -> torch.Tensor:
        all_announced.value()  # Raises the error of the allreduce, if it failed.
        with torch.no_grad():
            for total, (first, second, *others) in to_add:
                torch.add(first, second, out=total)
                for gradient in others:
                    total.add_(gradient)
        return buffer

    return add


def _first_tensor(future: Any) -> torch.Tensor:
    return future.value()[0]
