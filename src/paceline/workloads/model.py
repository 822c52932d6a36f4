"""A model that every engine can build: a list of layers and a loss."""

from collections.abc import Callable, Mapping
from functools import cached_property
from math import prod
from typing import Any, Literal, Protocol, get_args

import msgspec
import numpy as np
from msgspec.structs import replace

from paceline.data.batches import Batch
from paceline.spec.training import Initialisation
from paceline.workloads.layers import (
    Dense,
    Dropout,
    Embedding,
    Layer,
    Shape,
    SparseLinear,
    parameters_of,
    shapes_along,
    with_activation,
)
from paceline.workloads.parameters import Parameters, ParameterShape, Vector, initial_values, views

Loss = Literal["softmax", "logistic", "reconstruction", "squared"]
"""The mean over the examples of: softmax: the cross-entropy with integer labels; logistic: the cross-entropy of one
output with labels 0 and 1; reconstruction: half the squared distance between output and input; squared: half the
squared distance between output and target."""
LossFunction = Callable[[Any, Any], Any]
"""A user's loss: (outputs of the model, target) -> the mean over a batch, all of them tensors of a framework."""
CLASSIFICATION_LOSSES: frozenset[Loss] = frozenset({"softmax", "logistic"})
"""Losses of models whose accuracy can be computed."""


_METRICS: Mapping[str, frozenset[str]] = {
    "softmax": frozenset({"accuracy", "top5", "perplexity"}),
    "logistic": frozenset({"accuracy", "auc"}),
}


def metrics_of(loss: Loss | LossFunction) -> frozenset[str]:
    """The metrics that can be computed for models with this loss."""
    return _METRICS.get(loss, frozenset()) if isinstance(loss, str) else frozenset()


class Feed(msgspec.Struct, frozen=True):
    """The shape of one array of a batch, without the axis of the examples, and its type."""

    shape: Shape
    dtype: str


class AnyModel(Protocol):
    """What strategies and the training loop need from a model: a `Model`, or one of the user's for one engine."""

    @property
    def loss(self) -> Loss | LossFunction: ...

    @property
    def parameters(self) -> tuple[ParameterShape, ...]: ...

    @property
    def size(self) -> int:
        """The number of values in all parameters."""
        ...

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The inputs of a training step, without the target."""
        ...

    @property
    def data_feeds(self) -> tuple[Feed, ...]:
        """Those of `feeds` that come from the data set."""
        ...

    @property
    def target(self) -> Feed: ...

    @property
    def mask_sizes(self) -> tuple[int, ...]:
        """The number of values in the mask of each dropout layer."""
        ...

    @property
    def dropout_rates(self) -> tuple[float, ...]: ...

    @property
    def by_rows(self) -> SparseLinear | None:
        """The layer of a sparse model of which only the weights that a batch uses are transferred, or None."""
        ...

    def first(self, seed: int, part: slice | None = None) -> Vector:
        """The initial values of all parameters as one vector, or a part of it; the same in every task."""
        ...

    def blank(self, batch: int) -> Batch:
        """A batch of zeros, used to build and compile the model before training."""
        ...


class Model(msgspec.Struct, frozen=True, dict=True):
    """Layers that every engine can build."""

    inputs: Shape
    """The shape of one example: (width,), or (height, width, channels)."""
    layers: tuple[Layer, ...]
    loss: Loss = "softmax"
    init: Initialisation | None = None
    """The distribution of the initial weights and biases; None: as the layers say."""

    def __post_init__(self) -> None:
        if self.loss not in get_args(Loss):
            raise ValueError(f"loss '{self.loss}' is not known: use one of {', '.join(get_args(Loss))}")
        if self.sparse and (len(self.layers) > 1 or self.loss != "logistic"):
            raise ValueError("SparseLinear must be the only layer, and the loss must be logistic")

    @cached_property
    def shapes(self) -> list[Shape]:
        return shapes_along(self.layers, self.inputs)

    @cached_property
    def feeds(self) -> tuple[Feed, ...]:
        """The inputs of a training step, without the target: the examples, then the dropout masks."""
        return (*self.data_feeds, *(Feed((size,), "uint8") for size in self.mask_sizes))

    @cached_property
    def data_feeds(self) -> tuple[Feed, ...]:
        """The inputs that come from the data set. Images are rows of values, which the engine reshapes."""
        if self.sparse:
            return (Feed((self.sparse.nonzeros,), "int64"), Feed((self.sparse.nonzeros,), "float32"))
        return (Feed((prod(self.inputs),), "int64" if self.tokens else "float32"),)

    @cached_property
    def target(self) -> Feed:
        if self.loss == "squared":
            return Feed(self.shapes[-1], "float32")
        return Feed(self.shapes[-1][:-1] if self.loss == "softmax" else (), "int64")

    @cached_property
    def tokens(self) -> int | None:
        """The number of tokens of an example, if examples are sequences; otherwise None."""
        return self.inputs[0] if self.layers and isinstance(self.layers[0], Embedding) else None

    @cached_property
    def mask_sizes(self) -> tuple[int, ...]:
        pairs = zip(self.layers, self.shapes, strict=False)
        return tuple(prod(shape) for layer, shape in pairs if isinstance(layer, Dropout))

    @cached_property
    def dropout_rates(self) -> tuple[float, ...]:
        return tuple(layer.rate for layer in self.layers if isinstance(layer, Dropout))

    @cached_property
    def sparse(self) -> SparseLinear | None:
        """The only layer of a model over sparse features, or None."""
        return next((layer for layer in self.layers if isinstance(layer, SparseLinear)), None)

    @cached_property
    def by_rows(self) -> SparseLinear | None:
        """`sparse`, if only the weights that a batch uses are transferred; otherwise None."""
        return self.sparse if self.sparse and not self.sparse.whole else None

    @cached_property
    def is_linear(self) -> bool:
        """Whether it is one linear layer for classification, such as softmax regression."""
        one_layer = len(self.layers) == 1 and isinstance(self.layers[0], Dense | SparseLinear)
        return one_layer and self.loss in CLASSIFICATION_LOSSES

    @cached_property
    def parameters(self) -> tuple[ParameterShape, ...]:
        parameters = parameters_of(self.layers, self.inputs)
        return tuple(
            parameter if parameter.fixed or not self.init else replace(parameter, init=self.init)
            for parameter in parameters
        )

    @cached_property
    def size(self) -> int:
        return sum(parameter.size for parameter in self.parameters)

    def first(self, seed: int, part: slice | None = None) -> Vector:
        return initial_values(self.parameters, seed, part)

    def blank(self, batch: int) -> Batch:
        return blank(self, batch)

    def changed(self, *, init: str | None, activation: str | None) -> "Model":
        """The model with the initial weights and the activation that the user chose; None leaves the model's own."""
        layers = with_activation(self.layers, activation) if activation else self.layers
        return replace(self, layers=layers, init=Initialisation.parse(init) if init else self.init)


def initial_parameters(model: AnyModel, seed: int) -> Parameters:
    """The initial values by name."""
    return views(model.first(seed), model.parameters)


def blank(model: AnyModel, batch: int) -> Batch:
    """A batch of zeros with the shapes that the model takes."""
    inputs = tuple(np.zeros((batch, *feed.shape), feed.dtype) for feed in model.feeds)
    return Batch(inputs, np.zeros((batch, *model.target.shape), model.target.dtype))
