"""Products of blocks over gloo: every worker sends what others need of its blocks, and receives what it needs."""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from paceline.engines.torch.process_group import join
from paceline.train.context import TaskContext
from paceline.train.matmul_worker import MatmulWorker
from paceline.workloads.block_matmul import BlockMatmul


class BlockMatmulWorker(MatmulWorker):
    def __init__(self, context: TaskContext, product: BlockMatmul) -> None:
        super().__init__(context, product)
        job = context.job
        if job.workers > 1:
            join(context)
        held = {
            (i, j): torch.from_numpy(product.block("B", j, i, job.seed))
            for i, j in product.partners_of(job.index, job.workers)
        }
        self._arriving = {pair: torch.empty(product.side, product.side) for pair in self._remote_pairs}
        self._leaving = {pair: held[pair] for pair in held if self._owner(pair) != job.index}
        self._factors = [
            (torch.from_numpy(product.block("A", *pair, job.seed)), held.get(pair, self._arriving.get(pair)))
            for pair in self._pairs
        ]
        self._result = torch.empty(product.side, product.side)
        self._warm_up()

    def close(self) -> None:
        if self._job.workers > 1:
            dist.destroy_process_group()

    def _fetch(self) -> None:
        # None of these blocks, and each is known by its number: whatever the order, nobody waits for a turn.
        moving = [
            dist.irecv(block, self._owner_of_partner(*pair), tag=self._number(pair))
            for pair, block in self._arriving.items()
        ]
        moving += [
            dist.isend(block, self._owner(pair), tag=self._number(pair)) for pair, block in self._leaving.items()
        ]
        for one in moving:
            one.wait()

    def _multiply(self) -> float:
        traces = torch.zeros((), dtype=torch.float64)
        for left, right in self._factors:
            torch.mm(left, right, out=self._result)
            traces += self._result.diagonal().sum(dtype=torch.float64)
        return traces.item()

    def _all_sum(self, numbers: Sequence[float]) -> list[float]:
        sums = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(sums)
        return sums.tolist()

    def _owner(self, pair: tuple[int, int]) -> int:
        return self._product.block_owner(*pair, self._job.workers)

    def _number(self, pair: tuple[int, int]) -> int:
        return pair[0] * self._product.blocks + pair[1]
