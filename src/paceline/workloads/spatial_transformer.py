"""A network that learns to rotate and scale a distorted digit before it classifies it."""

from paceline.workloads.layers import AveragePool, Conv, Dense, Flatten, Layer, MaxPool, Relu, SpatialTransformer
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload

_TRANSFORMER = SpatialTransformer(
    localisation=(
        *(AveragePool(2, 2), Conv(8, 5), MaxPool(2, 2), Relu()),
        *(Conv(10, 5), MaxPool(2, 2), Relu()),
        *(Flatten(), Dense(32), Relu()),
    ),
    size=40,
)


def _workload(size: str, summary: str, *convolutions: Layer) -> Workload:
    return Workload(
        name="spatial-transformer",
        size=size,
        summary=summary,
        model=Model((40, 40, 1), (_TRANSFORMER, *convolutions, Flatten(), Dense(256), Relu(), Dense(10))),
        dataset="distorted-mnist",
        train_examples=60_000,
        lr=0.05,
    )


SIZES = (
    _workload(
        "small",
        "spatial transformer, then two convolutions",
        *(Conv(16, 3, stride=2, padding=1), Relu(), Conv(16, 3, stride=2, padding=1), Relu()),
    ),
    _workload(
        "large",
        "spatial transformer, then three convolutions, each with down-sampling",
        *(Conv(16, 3, padding=1), Relu(), MaxPool(2, 2)),
        *(Conv(32, 3, padding=1), Relu(), MaxPool(2, 2)),
        *(Conv(64, 3, padding=1), Relu(), MaxPool(2, 2)),
    ),
)
