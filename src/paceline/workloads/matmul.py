"""The trace of a product of two matrices of 6000 x 6000: what it costs when the factors lie on different hosts."""

from typing import Literal

from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.workload import Workload

_NO_SERVER = "it trains nothing, so there is nothing to serve: use allreduce, or single"


def _workload(placement: Literal["colocated", "scattered"], summary: str) -> Workload:
    return Workload(
        name="matmul",
        size=placement,
        summary=summary,
        blocks=BlockMatmul(blocks=6, side=1_000, placement=placement),
        dataset="none",
        train_examples=0,
        refused={"has_servers": _NO_SERVER},
    )


SIZES = (
    _workload("colocated", "trace of a product of two matrices in 6 x 6 blocks of 1000; partners lie together"),
    _workload("scattered", "the same, but each block's partner lies with another worker and is fetched in every step"),
)
