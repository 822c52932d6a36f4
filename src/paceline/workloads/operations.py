"""How much there is to calculate for one example: additions and multiplications, each counted."""

from collections.abc import Sequence
from math import prod

from paceline.workloads.layers import Conv, Dense, Layer, Shape, SparseLinear, SpatialTransformer, shapes_along

_PASSES = 3
"""Forward, and backward for what came in and for the weights: each about as much."""
_PER_PIXEL = 16
"""Of a spatial transformer: where to look, and a mean of four."""


def training_operations(layers: Sequence[Layer], inputs: Shape) -> int:
    """For one example of a training step."""
    return _PASSES * _forward(layers, inputs)


def _forward(layers: Sequence[Layer], inputs: Shape) -> int:
    shapes = shapes_along(layers, inputs)
    pairs = zip(layers, shapes[:-1], shapes[1:], strict=True)
    return sum(_of_layer(layer, before, after) for layer, before, after in pairs)


def _of_layer(layer: Layer, before: Shape, after: Shape) -> int:
    match layer:
        case Dense(units):
            return 2 * before[0] * units
        case Conv(size=size):
            return 2 * prod(after) * before[2] * size * size
        case SparseLinear(nonzeros=nonzeros):
            return 2 * nonzeros
        case SpatialTransformer(localisation):
            return _forward(localisation, before) + _PER_PIXEL * prod(after)
        case _:
            return prod(before)
