"""What is trained: model, data, loss and optimizer under one name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from paceline.data.batches import Examples, Share
from paceline.strategies.descriptor import Fact
from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.model import Loss, Model

BatchOfArrays = tuple[Any, ...]
"""NumPy arrays with the examples along their first axes: inputs, and the target last."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A built-in workload, or your own: give `model`, or `torch` or `tensorflow`; and `dataset`, `data` or `train`."""

    name: str
    size: str = ""
    """Which form of it, where there are several."""
    summary: str = ""
    model: Model | None = None
    """Layers that every engine can build."""
    torch: Callable[[], Any] | None = None
    """Makes an nn.Module: for engine torch."""
    tensorflow: Callable[[], Any] | None = None
    """Makes a Keras model or a TensorFunction: for engine tensorflow."""
    loss: Loss = "softmax"
    """Of a model that `torch` or `tensorflow` makes."""
    blocks: BlockMatmul | None = None
    """What is computed, where nothing is trained."""
    dataset: str | None = None
    """A name in paceline.data."""
    data: Callable[[], Examples] | None = None
    """Makes a data set of one's own, such as a reader of LibSVM files."""
    train: Callable[[Share], Iterable[BatchOfArrays]] | None = None
    """One worker's batches of an epoch; called again for the next."""
    test: Callable[[], Iterable[BatchOfArrays]] | None = None
    train_examples: int
    lr: float = 0.1
    """Learning rate of gradient descent."""
    momentum: float = 0.0
    most_threads: int | None = None
    """Compute threads beyond which a worker gets slower, where that is known."""
    refused: Mapping[Fact, str] = {}
    """Facts of strategies that make no sense for it, each with the reason."""

    @property
    def title(self) -> str:
        return f"{self.name}:{self.size}" if self.size else self.name

    @property
    def trained_for(self) -> Loss:
        return self.model.loss if self.model else self.loss

    @property
    def engines(self) -> frozenset[str] | None:
        """The engines that can run it; None is all."""
        if self.model or self.blocks:
            return None
        makers = {"torch": self.torch, "tensorflow": self.tensorflow}
        return frozenset(engine for engine, make in makers.items() if make)
