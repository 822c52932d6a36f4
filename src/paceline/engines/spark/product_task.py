"""What an executor does for a product of matrices in blocks: it stores blocks, sends some of them, and multiplies.

The Python process of an executor keeps the blocks of its worker. Every block depends only on the seed, so another
executor makes the blocks of a lost one again.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from paceline.data.batches import Array
from paceline.engines.spark.environment import TASK
from paceline.engines.spark.gradient_task import Share, read_all
from paceline.recording.recorder import clock_ns
from paceline.workloads.block_matmul import BlockMatmul

Pair = tuple[int, int]
"""The (i, j) of the product of A[i, j] with its partner B[j, i]."""


class ProductPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The product and its workers. Spark sends it to the executors with every task."""

    run: str
    product: BlockMatmul
    workers: int
    seed: int


class StoredBlocks(NamedTuple):
    """The blocks that one worker stores."""

    left: dict[Pair, Array]
    """The blocks A[i, j] that the worker multiplies."""
    partners: dict[Pair, Array]
    """The blocks B[j, i], for itself or for another worker."""
    result: Array
    """Where the product of two blocks is written to."""


_stored: dict[tuple[str, int], StoredBlocks] = {}
"""By run and worker."""


def stored_blocks(plan: ProductPlan, worker: int) -> StoredBlocks:
    """The blocks that a worker stores; made at the first call in this process."""
    key, product = (plan.run, worker), plan.product
    if key not in _stored:
        left = {(i, j): product.block("A", i, j, plan.seed) for i, j in product.pairs_of(worker, plan.workers)}
        partners = {(i, j): product.block("B", j, i, plan.seed) for i, j in product.partners_of(worker, plan.workers)}
        _stored[key] = StoredBlocks(left, partners, np.empty((product.side, product.side), np.float32))
    return _stored[key]


class SendBlocks:
    """Yields the blocks that another worker multiplies, with the number of that worker: exactly one row."""

    def __init__(self, plan: ProductPlan) -> None:
        self._plan = plan

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[tuple[int, dict[Pair, Array]]]:
        read_all(rows)
        plan = self._plan
        yield plan.product.receiver(index, plan.workers), stored_blocks(plan, index).partners


class MultiplyBlocks:
    """Multiplies the blocks of one worker with their partners; the loss of the share is the sum of the traces."""

    def __init__(self, plan: ProductPlan, *, fetches: bool) -> None:
        """`fetches`: each row has the blocks that `SendBlocks` has sent to this worker."""
        self._plan, self._fetches = plan, fetches

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[Share]:
        start = clock_ns()
        received = list(rows)
        blocks = stored_blocks(self._plan, index)
        partners: dict[Pair, Array] = blocks.partners
        if self._fetches:
            (_, (_, partners)) = received[0]
        pulled = clock_ns()
        trace = 0.0
        for pair, left in blocks.left.items():
            np.matmul(left, partners[pair], out=blocks.result)
            trace += float(blocks.result.diagonal().sum(dtype=np.float64))
        yield Share(index, os.environ.get(TASK), trace, pulled - start, 0, clock_ns() - pulled)
