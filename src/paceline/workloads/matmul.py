"""The trace of the product of two 6000 x 6000 matrices: it shows the cost of data that is stored on another host."""

from typing import Literal

from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.workload import Workload

_NO_SERVER = "it trains no parameters, so a parameter server has nothing to do: use allreduce or single"
_NO_ROUNDS = "it trains nothing that could be averaged: use single or allreduce"


def _workload(placement: Literal["colocated", "scattered"], summary: str) -> Workload:
    return Workload(
        name="matmul",
        size=placement,
        summary=summary,
        blocks=BlockMatmul(blocks=6, side=1_000, placement=placement),
        dataset="none",
        train_examples=0,
        refused={"has_parameter_servers": _NO_SERVER, "has_rounds": _NO_ROUNDS},
    )


SIZES = (
    _workload(
        "colocated",
        "trace of a product of two matrices in 6 x 6 blocks of 1000; the two blocks of each product are on one worker",
    ),
    _workload("scattered", "the same, but one block of each product is fetched from another worker in every step"),
)
