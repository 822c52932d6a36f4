"""The number of floating-point operations for one example; additions and multiplications are counted separately."""

from collections.abc import Sequence
from math import prod

from paceline.workloads.layers import Conv, Dense, Layer, Shape, SparseLinear, SpatialTransformer, shapes_along

_PASSES = 3
"""The forward pass, the backward pass for the inputs and that for the weights need about the same each."""
_OPERATIONS_PER_PIXEL = 16
"""Of a spatial transformer: the coordinates, and the weighted mean of four input pixels."""


def training_operations(layers: Sequence[Layer], inputs: Shape) -> int:
    """The operations of a training step for one example."""
    return _PASSES * _forward(layers, inputs)


def _forward(layers: Sequence[Layer], inputs: Shape) -> int:
    shapes = shapes_along(layers, inputs)
    pairs = zip(layers, shapes[:-1], shapes[1:], strict=True)
    return sum(_layer_operations(layer, before, after) for layer, before, after in pairs)


def _layer_operations(layer: Layer, before: Shape, after: Shape) -> int:
    match layer:
        case Dense(units):
            return 2 * before[0] * units
        case Conv(size=size):
            return 2 * prod(after) * before[2] * size * size
        case SparseLinear(nonzeros=nonzeros):
            return 2 * nonzeros
        case SpatialTransformer(localisation):
            return _forward(localisation, before) + _OPERATIONS_PER_PIXEL * prod(after)
        case _:
            return prod(before)
