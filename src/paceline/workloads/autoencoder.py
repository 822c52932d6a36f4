"""An autoencoder on MNIST: it reconstructs a digit from the values of a narrow hidden layer."""

from paceline.workloads.layers import Dense, Layer, Sigmoid
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload


def _workload(size: str, summary: str, *hidden: Layer) -> Workload:
    return Workload(
        name="autoencoder",
        size=size,
        summary=summary,
        model=Model((784,), (*hidden, Dense(784)), loss="reconstruction"),
        dataset="mnist",
        train_examples=60_000,
        lr=0.05,
    )


SIZES = (
    _workload("small", "autoencoder, one hidden layer of 200", Dense(200), Sigmoid()),
    _workload("large", "autoencoder, two hidden layers of 200", Dense(200), Sigmoid(), Dense(200), Sigmoid()),
)
