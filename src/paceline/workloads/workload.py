"""What is trained: model, data, loss and optimizer under one name."""

from collections.abc import Mapping

import msgspec

from paceline.workloads.blocks import BlockProduct
from paceline.workloads.model import Model


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: str = ""
    """Which form of it, where there are several."""
    summary: str
    model: Model = Model((1,), ())
    blocks: BlockProduct | None = None
    """What is computed, where nothing is trained."""
    dataset: str
    """A name in paceline.data."""
    train_examples: int
    lr: float = 0.0
    """Learning rate of gradient descent."""
    momentum: float = 0.0
    most_threads: int | None = None
    """Compute threads beyond which a worker gets slower, where that is known."""
    refused: Mapping[str, str] = {}
    """Strategies that make no sense for it, each with the reason."""

    @property
    def title(self) -> str:
        return f"{self.name}:{self.size}" if self.size else self.name
