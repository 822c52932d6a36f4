"""Softmax regression on MNIST: with only 7,850 weights, most of a step is overhead and communication."""

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
        most_threads=1,  # A step is 3 million multiplications: splitting them over threads costs more than it saves.
        lr=0.1,
    ),
)
