"""Softmax regression on MNIST: 7,850 weights, so small that everything but the computing shows."""

from paceline.workloads.layers import Dense
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload

SIZES = (
    Workload(
        name="logreg",
        summary="softmax regression",
        model=Model((784,), (Dense(10),)),
        dataset="mnist",
        train_examples=60_000,
        most_threads=1,  # A step is 3 million multiplications: sharing them out costs more than it saves.
        lr=0.1,
    ),
)
