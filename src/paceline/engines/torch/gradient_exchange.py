"""How allreduce's workers add up their gradients: through gloo, and between neighbours through memory they share.

There, each worker has its gradients in a segment of its own, says so of each bucket, and adds up the segments of all
once all have said so. Every worker adds in the order of ranks, so all arrive at the same bits. Even steps use one half
of the segment and odd ones the other: whoever writes to a half again has since heard from everyone of the step between,
and nobody says anything of that step before it is done with the one before.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch
import torch.distributed as dist

from paceline.engines.torch.network import Network
from paceline.paramserver.transports.shared_memory import SEGMENT, Segment, map_peer_vector
from paceline.train.context import Job, Peers

_WORTH_SHARING = 2**20
"""Of a smaller bucket most of the time is spent on waking each other up, which memory does not spare."""
Sum: TypeAlias = "torch.futures.Future[torch.Tensor]"
Windows = dict[torch.Tensor, torch.Tensor]


class Exchange(Protocol):
    def begin(self) -> None:
        """A step."""

    def sum(self, bucket: dist.GradBucket) -> Sum:
        """The sum of all workers' gradients of this bucket, to come."""


class Gloo:
    def begin(self) -> None:
        """There is nothing to prepare."""

    def sum(self, bucket: dist.GradBucket) -> Sum:
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(_first)


class SharedMemory:
    """Between the workers of one machine."""

    def __init__(self, job: Job, network: Network) -> None:
        self._job, self._network = job, network
        self._size = network.vector.size
        self._segment = Segment(2 * self._size)
        self._gloo = Gloo()
        self._half = 0
        self._placed: dict[torch.Tensor, bool] = {}
        self._halves: list[list[Windows]] = []
        """By half and rank."""

    @property
    def address(self) -> dict[str, str]:
        return {SEGMENT: self._segment.path}

    def meet(self, peers: Peers) -> None:
        paths = [peers[f"w{rank}"][SEGMENT] for rank in range(self._job.workers)]
        vectors = [map_peer_vector(path, 2 * self._size).reshape(2, -1) for path in paths]
        tensors = self._network.tensors
        self._halves = [
            [dict(zip(tensors, self._network.windows(vector[half]), strict=True)) for vector in vectors]
            for half in (0, 1)
        ]

    def begin(self) -> None:
        self._half = 1 - self._half
        windows = self._halves[self._half][self._job.index]
        placed = self._network.place_gradients(list(windows.values()))
        self._placed = dict(zip(windows, placed, strict=True))

    def sum(self, bucket: dist.GradBucket) -> Sum:
        if 4 * bucket.buffer().numel() < _WORTH_SHARING and not any(map(self._placed.get, bucket.parameters())):
            return self._gloo.sum(bucket)
        ranks = self._halves[self._half]
        to_add = []
        for tensor, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            windows = [of_rank[tensor] for of_rank in ranks]
            if not self._placed[tensor]:
                windows[self._job.index].copy_(gradient)
            to_add.append((gradient, windows))
        said = dist.all_reduce(torch.zeros(1), async_op=True).get_future()
        return said.then(_adds(bucket.buffer(), to_add))


def _adds(buffer: torch.Tensor, to_add: list[tuple[torch.Tensor, list[torch.Tensor]]]) -> Callable[[Any], torch.Tensor]:
    def add(said: Any) -> torch.Tensor:
        said.value()  # Raises what went wrong.
        with torch.no_grad():
            for total, (first, second, *more) in to_add:
                torch.add(first, second, out=total)
                for one in more:
                    total.add_(one)
        return buffer

    return add


def _first(future: Any) -> torch.Tensor:
    return future.value()[0]
