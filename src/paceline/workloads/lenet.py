"""LeNet-5 adapted to 28 x 28 pictures: no padding, ReLU, average pooling."""

from paceline.workloads.layers import AveragePool, Conv, Dense, Flatten, Relu
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload

MODEL = Model(
    (28, 28, 1),
    (
        *(Conv(6, 5), Relu(), AveragePool(2, 2)),
        *(Conv(16, 5), Relu(), AveragePool(2, 2)),
        *(Flatten(), Dense(120), Relu(), Dense(84), Relu(), Dense(10)),
    ),
)

SIZES = (
    Workload(
        name="lenet",
        summary="LeNet-5 for 28 x 28 pictures, ReLU, average pooling",
        model=MODEL,
        dataset="mnist",
        train_examples=60_000,
        lr=0.1,
    ),
)
