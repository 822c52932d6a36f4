"""The layers a model is made of, described so that every engine can build them. Images are height, width, channels."""

from collections.abc import Iterator, Sequence
from math import prod, sqrt

import msgspec

from paceline.workloads.parameters import ParameterShape

Shape = tuple[int, ...]


class Dense(msgspec.Struct, frozen=True, tag=True):
    """x @ weight + bias."""

    units: int


class Conv(msgspec.Struct, frozen=True, tag=True):
    """Square filters; the weight is kept as [filters, channels, size, size]."""

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


class Flatten(msgspec.Struct, frozen=True, tag=True):
    """An image as a row: channel by channel, in each row by row."""


class Dropout(msgspec.Struct, frozen=True, tag=True):
    """While training, a value is zero with this probability and scaled up otherwise.

    Which ones are zero is drawn in NumPy and fed, so that engines agree; in steps of 1/256.
    """

    rate: float = 0.5


class SpatialTransformer(msgspec.Struct, frozen=True, tag=True):
    """The image seen through an affine map that layers of its own find for each example."""

    localisation: tuple["Layer", ...]
    """From the image to a row; what turns the row into the map's six numbers is added."""
    size: int
    """Side of the square image that comes out."""


class SparseLinear(msgspec.Struct, frozen=True, tag=True):
    """Sum of weight[index] * value over an example's non-zeros, plus bias: one number. Must be the only layer."""

    features: int
    nonzeros: int
    whole: bool = False
    """Whether all weights move in every step, and not only those that a batch touches."""

    def rows(self, batch: int) -> int:
        """How many weights a batch touches, the bias among them; one that comes up twice is counted twice."""
        return batch * self.nonzeros + 1


Layer = (
    Dense | Conv | MaxPool | AveragePool | Relu | Sigmoid | Flatten | Dropout | SpatialTransformer | SparseLinear
)  # fmt: skip
IDENTITY_MAP = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def shape_after(layer: Layer, shape: Shape) -> Shape:
    """What comes out, for one example; ValueError if the layer does not take that shape."""
    match layer:
        case Dense(units):
            _expect(layer, shape, 1)
            return (units,)
        case Dropout():
            return _expect(layer, shape, 1)
        case Conv(filters, size, stride, padding):
            height, width, _ = _expect(layer, shape, 3)
            return (*_window(layer, height + 2 * padding, width + 2 * padding, size, stride), filters)
        case MaxPool(size, stride) | AveragePool(size, stride):
            height, width, channels = _expect(layer, shape, 3)
            return (*_window(layer, height, width, size, stride), channels)
        case SpatialTransformer(localisation, size):
            _, _, channels = _expect(layer, shape, 3)
            if any(isinstance(one, Dropout | SpatialTransformer) for one in localisation):
                raise ValueError("a SpatialTransformer's own layers cannot have Dropout or another transformer")
            return (size, size, channels)
        case Flatten():
            return (prod(shape),)
        case SparseLinear():
            return (1,)
        case _:
            return shape


def shapes_along(layers: Sequence[Layer], shape: Shape) -> list[Shape]:
    """The shape before each layer, and the one that comes out at the end."""
    found = [shape]
    for layer in layers:
        found.append(shape_after(layer, found[-1]))
    return found


def parameters_of(layers: Sequence[Layer], shape: Shape, prefix: str = "") -> Iterator[ParameterShape]:
    """Every parameter of the layers, in the order in which engines keep and use them."""
    shapes = shapes_along(layers, shape)
    for number, layer in enumerate(layers):
        name, before = f"{prefix}{number}", shapes[number]
        rectified = number + 1 < len(layers) and isinstance(layers[number + 1], Relu)
        match layer:
            case Dense(units):
                bound = _bound(before[0], units, rectified)
                yield ParameterShape(f"{name}.weight", (before[0], units), bound)
                yield ParameterShape(f"{name}.bias", (units,))
            case Conv(filters, size):
                bound = _bound(before[2] * size * size, filters * size * size, rectified)
                yield ParameterShape(f"{name}.weight", (filters, before[2], size, size), bound)
                yield ParameterShape(f"{name}.bias", (filters,))
            case SpatialTransformer(localisation):
                yield from parameters_of(localisation, before, f"{name}.")
                (width,) = shapes_along(localisation, before)[-1]
                # No matter what the image, the map is the identity at first.
                yield ParameterShape(f"{name}.map.weight", (width, 6))
                yield ParameterShape(f"{name}.map.bias", (6,), values=IDENTITY_MAP)
            case SparseLinear(features=features):
                yield ParameterShape(f"{name}.weight", (features,))
                yield ParameterShape(f"{name}.bias", (1,))


def _bound(fan_in: int, fan_out: int, rectified: bool) -> float:
    """Of a uniform distribution: He's before a ReLU, which halves the variance, Glorot's elsewhere."""
    return sqrt(6 / fan_in) if rectified else sqrt(6 / (fan_in + fan_out))


def _expect(layer: Layer, shape: Shape, dimensions: int) -> Shape:
    if len(shape) != dimensions:
        hint = "put Flatten() before it" if dimensions == 1 else "give the model inputs (height, width, channels)"
        raise ValueError(f"{type(layer).__name__} cannot take examples of shape {shape}: {hint}")
    return shape


def _window(layer: Layer, height: int, width: int, size: int, stride: int) -> tuple[int, int]:
    if size > min(height, width):
        raise ValueError(f"{type(layer).__name__} of size {size} does not fit an image of {height} x {width}")
    return (height - size) // stride + 1, (width - size) // stride + 1
