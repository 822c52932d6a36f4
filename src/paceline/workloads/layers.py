"""The layers of a model, described independently of the engine. The axes of images are height, width, channels."""

from collections.abc import Iterator, Sequence
from math import prod, sqrt

import msgspec

from paceline.spec.training import Initialisation
from paceline.workloads.parameters import ParameterShape

Shape = tuple[int, ...]


class Dense(msgspec.Struct, frozen=True, tag=True):
    """x @ weight + bias."""

    units: int


class Conv(msgspec.Struct, frozen=True, tag=True):
    """A convolution with square filters; its weight has the shape [filters, channels, size, size]."""

    filters: int
    size: int
    stride: int = 1
    padding: int = 0


class MaxPool(msgspec.Struct, frozen=True, tag=True):
    size: int
    stride: int


class AveragePool(msgspec.Struct, frozen=True, tag=True):
    size: int
    stride: int


class Relu(msgspec.Struct, frozen=True, tag=True):
    pass


class Sigmoid(msgspec.Struct, frozen=True, tag=True):
    pass


class Tanh(msgspec.Struct, frozen=True, tag=True):
    pass


class Flatten(msgspec.Struct, frozen=True, tag=True):
    """Turns an image into a row of values: channel by channel, and within each channel row by row."""


class Dropout(msgspec.Struct, frozen=True, tag=True):
    """In training, sets a value to zero with probability `rate`, and otherwise scales it by 1 / (1 - rate).

    The masks are drawn with NumPy and fed to the engines, so that all engines drop the same values. The rate is rounded
    to a multiple of 1/256.
    """

    rate: float = 0.5


class SpatialTransformer(msgspec.Struct, frozen=True, tag=True):
    """Transforms each image with an affine map that the localisation layers compute from it."""

    localisation: tuple["Layer", ...]
    """The layers from the image to a row; a dense layer from the row to the six numbers of the map is added."""
    size: int
    """Width and height of the output image."""


class SparseLinear(msgspec.Struct, frozen=True, tag=True):
    """One number: the sum of weight[index] * value over the non-zeros of an example, plus a bias. The only layer
    allowed."""

    features: int
    nonzeros: int
    whole: bool = False
    """Whether all weights are transferred in every step, and not only those that the batch uses."""

    def rows(self, batch: int) -> int:
        """How many weights a batch uses, including the bias; one that occurs twice is counted twice."""
        return batch * self.nonzeros + 1


class Embedding(msgspec.Struct, frozen=True, tag=True):
    """A vector for each token of a sequence: the sum of one for the token and one for its position. The first layer."""

    vocabulary: int
    width: int


class TransformerBlock(msgspec.Struct, frozen=True, tag=True):
    """Causal self-attention and a network of two dense layers with GELU, each after a layer normalization and added to
    its input."""

    heads: int
    expansion: int = 4
    """How many times as wide the hidden layer is."""


class LayerNorm(msgspec.Struct, frozen=True, tag=True):
    """Normalizes the last axis to mean 0 and variance 1, then scales and shifts it."""


class GroupNorm(msgspec.Struct, frozen=True, tag=True):
    """Normalizes each group of channels of an image to mean 0 and variance 1, then scales and shifts each channel."""

    groups: int


class Residual(msgspec.Struct, frozen=True, tag=True):
    """Adds the output of its layers to its input. If they change the shape of an image, the input goes through a
    convolution of size 1 first."""

    layers: tuple["Layer", ...]


Layer = (
    Dense | Conv | MaxPool | AveragePool | Relu | Sigmoid | Tanh | Flatten | Dropout | SpatialTransformer | SparseLinear
    | Embedding | TransformerBlock | LayerNorm | GroupNorm | Residual
)  # fmt: skip
NORM_EPSILON = 1e-5
"""Added to the variance in a layer normalization."""
_EMBEDDING_DEVIATION = 0.02
IDENTITY_MAP = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
"""The affine map, as the rows of a 2 x 3 matrix, that leaves an image unchanged."""


def shape_after(layer: Layer, shape: Shape) -> Shape:
    """The output shape for one example; ValueError if the layer cannot take the input shape."""
    match layer:
        case Dense(units):
            if len(shape) == 2:  # A sequence: the layer is applied to each token.
                return (shape[0], units)
            _check_dimensions(layer, shape, 1)
            return (units,)
        case Embedding(_, width):
            return (*_check_dimensions(layer, shape, 1), width)
        case TransformerBlock(heads):
            if len(shape) != 2 or shape[1] % heads:
                raise ValueError(
                    f"TransformerBlock of {heads} heads cannot take examples of shape {shape}: give it "
                    "sequences whose width is a multiple of the number of heads, e.g. of an Embedding"
                )
            return shape
        case Dropout():
            return _check_dimensions(layer, shape, 1)
        case Conv(filters, size, stride, padding):
            height, width, _ = _check_dimensions(layer, shape, 3)
            return (*_window_counts(layer, height + 2 * padding, width + 2 * padding, size, stride), filters)
        case MaxPool(size, stride) | AveragePool(size, stride):
            height, width, channels = _check_dimensions(layer, shape, 3)
            return (*_window_counts(layer, height, width, size, stride), channels)
        case SpatialTransformer(localisation, size):
            _, _, channels = _check_dimensions(layer, shape, 3)
            if any(isinstance(inner, Dropout | SpatialTransformer) for inner in localisation):
                raise ValueError("SpatialTransformer: localisation cannot contain Dropout or SpatialTransformer")
            return (size, size, channels)
        case GroupNorm(groups):
            if _check_dimensions(layer, shape, 3)[2] % groups:
                raise ValueError(f"GroupNorm cannot divide {shape[2]} channels into {groups} groups of the same size")
            return shape
        case Residual(inner):
            if any(isinstance(one, Dropout | SpatialTransformer) for one in inner):
                raise ValueError("Residual: its layers cannot contain Dropout or SpatialTransformer")
            after = shapes_along(inner, shape)[-1]
            if after != shape and len(shape) != 3:
                raise ValueError(
                    f"Residual: its layers change the shape from {shape} to {after}: only images may change"
                )
            return after
        case Flatten():
            return (prod(shape),)
        case SparseLinear():
            return (1,)
        case _:
            return shape


def shapes_along(layers: Sequence[Layer], shape: Shape) -> list[Shape]:
    """The input shape of each layer, followed by the output shape of the last."""
    shapes = [shape]
    for layer in layers:
        shapes.append(shape_after(layer, shapes[-1]))
    return shapes


def parameters_of(layers: Sequence[Layer], shape: Shape, prefix: str = "") -> Iterator[ParameterShape]:
    """Every parameter of the layers, in the order in which engines store them."""
    shapes = shapes_along(layers, shape)
    for number, layer in enumerate(layers):
        name, before = f"{prefix}{number}", shapes[number]
        before_relu = number + 1 < len(layers) and isinstance(layers[number + 1], Relu)
        match layer:
            case Dense(units):
                bound = _bound(before[-1], units, before_relu)
                yield ParameterShape(f"{name}.weight", (before[-1], units), bound)
                yield ParameterShape(f"{name}.bias", (units,))
            case Conv(filters, size):
                bound = _bound(before[2] * size * size, filters * size * size, before_relu)
                yield ParameterShape(f"{name}.weight", (filters, before[2], size, size), bound)
                yield ParameterShape(f"{name}.bias", (filters,))
            case SpatialTransformer(localisation):
                yield from parameters_of(localisation, before, f"{name}.")
                (width,) = shapes_along(localisation, before)[-1]
                # At first the map is the identity for every image.
                yield ParameterShape(f"{name}.map.weight", (width, 6), fixed=True)
                yield ParameterShape(f"{name}.map.bias", (6,), values=IDENTITY_MAP, fixed=True)
            case Embedding(vocabulary, width):
                init = Initialisation("normal", deviation=_EMBEDDING_DEVIATION)
                yield ParameterShape(f"{name}.tokens", (vocabulary, width), init=init)
                yield ParameterShape(f"{name}.positions", (before[0], width), init=init)
            case TransformerBlock(expansion=expansion):
                yield from _block_parameters(name, before[1], expansion)
            case LayerNorm() | GroupNorm():
                yield from _norm_parameters(name, before[-1])
            case Residual(inner):
                yield from parameters_of(inner, before, f"{name}.")
                if (after := shapes[number + 1]) != before:
                    bound = _bound(before[2], after[2], before_relu=False)
                    yield ParameterShape(f"{name}.shortcut.weight", (after[2], before[2], 1, 1), bound)
            case SparseLinear(features=features):
                yield ParameterShape(f"{name}.weight", (features,))
                yield ParameterShape(f"{name}.bias", (1,))


def _block_parameters(name: str, width: int, expansion: int) -> Iterator[ParameterShape]:
    """In the order in which a block uses them."""
    yield from _norm_parameters(f"{name}.norm1", width)
    for part, inputs, units in (("qkv", width, 3 * width), ("out", width, width)):
        yield ParameterShape(f"{name}.{part}.weight", (inputs, units), _bound(inputs, units, before_relu=False))
        yield ParameterShape(f"{name}.{part}.bias", (units,))
    yield from _norm_parameters(f"{name}.norm2", width)
    for part, inputs, units in (("up", width, expansion * width), ("down", expansion * width, width)):
        yield ParameterShape(f"{name}.{part}.weight", (inputs, units), _bound(inputs, units, before_relu=False))
        yield ParameterShape(f"{name}.{part}.bias", (units,))


def _norm_parameters(name: str, width: int) -> Iterator[ParameterShape]:
    yield ParameterShape(f"{name}.scale", (width,), values=(1.0,) * width, fixed=True)
    yield ParameterShape(f"{name}.bias", (width,), fixed=True)


def has_activation(layers: Sequence[Layer]) -> bool:
    return any(isinstance(layer, Relu | Sigmoid | Tanh | SpatialTransformer | Residual) for layer in layers)


def shortcut_stride(height: int, after_height: int) -> int:
    """The stride of the convolution that brings the input of a Residual to the height of its output."""
    return -(-height // after_height)


def with_activation(layers: Sequence[Layer], name: str) -> tuple[Layer, ...]:
    """The layers with another activation after the hidden layers: relu, tanh or sigmoid."""
    activations: dict[str, Layer] = {"relu": Relu(), "tanh": Tanh(), "sigmoid": Sigmoid()}
    activation = activations[name]

    def changed(layer: Layer) -> Layer:
        if isinstance(layer, SpatialTransformer):
            return SpatialTransformer(with_activation(layer.localisation, name), layer.size)
        if isinstance(layer, Residual):
            return Residual(with_activation(layer.layers, name))
        return activation if isinstance(layer, Relu | Sigmoid | Tanh) else layer

    return tuple(map(changed, layers))


def _bound(fan_in: int, fan_out: int, before_relu: bool) -> float:
    """The bound of the uniform distribution of initial weights.

    It is He's before a ReLU, which halves the variance, and Glorot's otherwise.
    """
    return sqrt(6 / fan_in) if before_relu else sqrt(6 / (fan_in + fan_out))


def _check_dimensions(layer: Layer, shape: Shape, dimensions: int) -> Shape:
    if len(shape) != dimensions:
        hint = "put Flatten() before it" if dimensions == 1 else "give the model inputs (height, width, channels)"
        raise ValueError(f"{type(layer).__name__} cannot take examples of shape {shape}: {hint}")
    return shape


def _window_counts(layer: Layer, height: int, width: int, size: int, stride: int) -> tuple[int, int]:
    if size > min(height, width):
        raise ValueError(
            f"{type(layer).__name__} of size {size} does not fit an image of {height} x {width}: use a smaller size"
        )
    return (height - size) // stride + 1, (width - size) // stride + 1
