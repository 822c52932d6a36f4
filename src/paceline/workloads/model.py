"""A model described once, for every engine: a short list of layers and a loss."""

from functools import cached_property
from math import prod
from typing import Literal

import msgspec
import numpy as np

from paceline.data.batches import Batch
from paceline.workloads.layers import Dropout, Layer, Shape, SparseLinear, parameters_of, shapes_along
from paceline.workloads.parameters import Parameters, ParameterShape, first_values, views

Loss = Literal["softmax", "logistic", "reconstruction"]
"""Means over the examples of: cross-entropy of integer labels; the same for one output and labels 0 and 1; half
the squared distance between output and input."""


class Feed(msgspec.Struct, frozen=True):
    """One array of a batch, without the examples' axis."""

    shape: Shape
    dtype: str


class Model(msgspec.Struct, frozen=True, dict=True):
    inputs: Shape
    """Of one example: (width,), or (height, width, channels)."""
    layers: tuple[Layer, ...]
    loss: Loss = "softmax"

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

    def initial(self, seed: int) -> Parameters:
        """First values, the same for every engine."""
        return views(first_values(self.parameters, seed), self.parameters)

    def blank(self, batch: int) -> Batch:
        """A batch of zeros, for setting up."""
        inputs = tuple(np.zeros((batch, *feed.shape), feed.dtype) for feed in self.feeds)
        return Batch(inputs, np.zeros(batch, np.int64))
