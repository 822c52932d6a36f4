"""What is trained: model, data, loss and optimizer under one name."""

import msgspec

from paceline.workloads.model import Model


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    summary: str
    model: Model
    dataset: str
    """A name in paceline.data."""
    train_examples: int
    most_threads: int | None = None
    """Compute threads beyond which a worker gets slower, where that is known."""
    lr: float
    """Learning rate of plain gradient descent."""
