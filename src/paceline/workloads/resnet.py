"""ResNet for CIFAR-10 (He et al. 2015, section 4.2), with group normalization instead of batch normalization.

Batch normalization keeps means over past batches, which every worker would have to exchange; groups need no such state.
"""

from paceline.workloads.layers import AveragePool, Conv, Dense, Flatten, GroupNorm, Layer, Relu, Residual
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload

_GROUPS = 8
_STAGES = ((16, 1), (32, 2), (64, 2))
"""Filters of each stage, and the stride of its first block."""


def _block(filters: int, stride: int) -> tuple[Layer, ...]:
    convolution = (Conv(filters, 3, stride, 1), GroupNorm(_GROUPS), Relu(), Conv(filters, 3, 1, 1), GroupNorm(_GROUPS))
    return (Residual(convolution), Relu())


def _workload(layers: int) -> Workload:
    """ResNet with 6n + 2 layers."""
    blocks: list[Layer] = []
    for filters, first_stride in _STAGES:
        for number in range((layers - 2) // 6):
            blocks += _block(filters, 1 if number else first_stride)
    return Workload(
        name="resnet",
        size=str(layers),
        summary=f"ResNet-{layers} for 32 x 32 pictures and 10 classes, group normalization, momentum",
        model=Model(
            (32, 32, 3),
            (Conv(16, 3, 1, 1), GroupNorm(_GROUPS), Relu(), *blocks, AveragePool(8, 8), Flatten(), Dense(10)),
        ),
        dataset="cifar10",
        train_examples=50_000,
        optimizer="momentum:weight_decay=0.0001",
        lr=0.1,
    )


SIZES = (_workload(20), _workload(56))
