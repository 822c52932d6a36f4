"""A model described once, for every engine: a short list of layers and a loss."""

from functools import cached_property
from math import prod
from typing import Literal, Protocol, get_args

import msgspec
import numpy as np

from paceline.data.batches import Batch
from paceline.workloads.layers import Dropout, Layer, Shape, SparseLinear, parameters_of, shapes_along
from paceline.workloads.parameters import Parameters, ParameterShape, Vector, first_values, views

Loss = Literal["softmax", "logistic", "reconstruction", "squared"]
"""Means over the examples of: cross-entropy of integer labels; the same for one output and labels 0 and 1; half
the squared distance between output and input; the same between output and target."""
CLASSIFIES: frozenset[Loss] = frozenset({"softmax", "logistic"})
"""Losses of models that can be right or wrong."""


class Feed(msgspec.Struct, frozen=True):
    """One array of a batch, without the examples' axis."""

    shape: Shape
    dtype: str


class AnyModel(Protocol):
    """What strategies and the training loop need to know of a model, wherever it comes from."""

    @property
    def loss(self) -> Loss: ...

    @property
    def parameters(self) -> tuple[ParameterShape, ...]: ...

    @property
    def size(self) -> int:
        """Values in all parameters."""
        ...

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """What a training step takes, beside the target."""
        ...

    @property
    def data_feeds(self) -> tuple[Feed, ...]:
        """What of that comes from the data set."""
        ...

    @property
    def target(self) -> Feed: ...

    @property
    def mask_sizes(self) -> tuple[int, ...]: ...

    @property
    def dropout_rates(self) -> tuple[float, ...]: ...

    @property
    def by_rows(self) -> SparseLinear | None: ...

    def first(self, seed: int, part: slice | None = None) -> Vector:
        """First values of all parameters, or of a part of them; the same in every task."""
        ...

    def blank(self, batch: int) -> Batch:
        """A batch of zeros, for setting up."""
        ...


class Model(msgspec.Struct, frozen=True, dict=True):
    """Layers that every engine can build."""

    inputs: Shape
    """Of one example: (width,), or (height, width, channels)."""
    layers: tuple[Layer, ...]
    loss: Loss = "softmax"

    def __post_init__(self) -> None:
        if self.loss not in get_args(Loss):
            raise ValueError(f"loss '{self.loss}' is not known: use {', '.join(get_args(Loss))}")
        if self.sparse and (len(self.layers) > 1 or self.loss != "logistic"):
            raise ValueError("SparseLinear must be the only layer, and its loss logistic")

    @cached_property
    def shapes(self) -> list[Shape]:
        return shapes_along(self.layers, self.inputs)

    @cached_property
    def feeds(self) -> tuple[Feed, ...]:
        """What a training step takes, beside the target: the example itself, then the masks of dropout."""
        return (*self.data_feeds, *(Feed((size,), "uint8") for size in self.mask_sizes))

    @cached_property
    def data_feeds(self) -> tuple[Feed, ...]:
        """What data sets deliver. Images come as rows and are given their shape by the engine."""
        if self.sparse:
            return (Feed((self.sparse.nonzeros,), "int64"), Feed((self.sparse.nonzeros,), "float32"))
        return (Feed((prod(self.inputs),), "float32"),)

    @cached_property
    def target(self) -> Feed:
        return Feed(self.shapes[-1], "float32") if self.loss == "squared" else Feed((), "int64")

    @cached_property
    def mask_sizes(self) -> tuple[int, ...]:
        pairs = zip(self.layers, self.shapes, strict=False)
        return tuple(prod(shape) for layer, shape in pairs if isinstance(layer, Dropout))

    @cached_property
    def dropout_rates(self) -> tuple[float, ...]:
        return tuple(layer.rate for layer in self.layers if isinstance(layer, Dropout))

    @cached_property
    def sparse(self) -> SparseLinear | None:
        """The one layer of a model over sparse features."""
        return next((layer for layer in self.layers if isinstance(layer, SparseLinear)), None)

    @cached_property
    def by_rows(self) -> SparseLinear | None:
        """The same, if only the weights that a batch touches are to move."""
        return self.sparse if self.sparse and not self.sparse.whole else None

    @cached_property
    def parameters(self) -> tuple[ParameterShape, ...]:
        return tuple(parameters_of(self.layers, self.inputs))

    @cached_property
    def size(self) -> int:
        return sum(parameter.size for parameter in self.parameters)

    def first(self, seed: int, part: slice | None = None) -> Vector:
        return first_values(self.parameters, seed, part)

    def blank(self, batch: int) -> Batch:
        return blank(self, batch)


def initial(model: AnyModel, seed: int) -> Parameters:
    """First values by name."""
    return views(model.first(seed), model.parameters)


def blank(model: AnyModel, batch: int) -> Batch:
    inputs = tuple(np.zeros((batch, *feed.shape), feed.dtype) for feed in model.feeds)
    return Batch(inputs, np.zeros((batch, *model.target.shape), model.target.dtype))
