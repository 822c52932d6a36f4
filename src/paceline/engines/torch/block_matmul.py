"""The torch worker of the block-matmul workload: workers send each other blocks through gloo and multiply them.

Each worker multiplies the blocks A[i, j] that it owns with their partners B[j, i]. A partner that another worker owns
is received in every step. A pair is the (i, j) of such a product.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from paceline.engines.torch.process_group import join_process_group
from paceline.train.context import TaskContext
from paceline.train.matmul_worker import MatmulWorker
from paceline.workloads.block_matmul import BlockMatmul


class BlockMatmulWorker(MatmulWorker):
    """One worker that computes its share of the block products with torch."""

    def __init__(self, context: TaskContext, product: BlockMatmul) -> None:
        super().__init__(context, product)
        job = context.job
        if job.workers > 1:
            join_process_group(context)
        own_partners = {
            (i, j): torch.from_numpy(product.block("B", j, i, job.seed))
            for i, j in product.partners_of(job.index, job.workers)
        }
        self._to_receive = {pair: torch.empty(product.side, product.side) for pair in self._remote_pairs}
        self._to_send = {pair: own_partners[pair] for pair in own_partners if self._block_owner(pair) != job.index}
        self._factors = [
            (torch.from_numpy(product.block("A", *pair, job.seed)), own_partners.get(pair, self._to_receive.get(pair)))
            for pair in self._pairs
        ]
        self._result = torch.empty(product.side, product.side)
        self._warm_up()

    def close(self) -> None:
        if self._job.workers > 1:
            dist.destroy_process_group()

    def _fetch(self) -> None:
        # All transfers are asynchronous and each has a tag of its own, so they may complete in any order and no worker
        # has to wait for the turn of another one.
        transfers = [
            dist.irecv(block, self._owner_of_partner(*pair), tag=self._tag(pair))
            for pair, block in self._to_receive.items()
        ]
        transfers += [
            dist.isend(block, self._block_owner(pair), tag=self._tag(pair)) for pair, block in self._to_send.items()
        ]
        for transfer in transfers:
            transfer.wait()

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

    def _block_owner(self, pair: tuple[int, int]) -> int:
        return self._product.block_owner(*pair, self._job.workers)

    def _tag(self, pair: tuple[int, int]) -> int:
        """The gloo tag of the transfer of a partner, the same in the sender and the receiver."""
        return pair[0] * self._product.blocks + pair[1]
