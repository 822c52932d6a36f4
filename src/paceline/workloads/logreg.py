"""Softmax regression on MNIST: 7,850 weights, so small that everything but the computing shows."""

from paceline.workloads.model import Dense, Model
from paceline.workloads.workload import Workload

WORKLOAD = Workload(
    name="logreg",
    summary="softmax regression on MNIST (7,850 weights)",
    model=Model(784, (Dense(10),)),
    dataset="mnist",
    train_examples=60_000,
    most_threads=1,  # A step is 3 million multiplications: sharing them out costs more than it saves.
    lr=0.1,
)
