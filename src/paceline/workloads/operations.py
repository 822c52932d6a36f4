"""The number of floating-point operations for one example; additions and multiplications are counted separately."""

from collections.abc import Sequence
from math import prod

from paceline.workloads.layers import (
    Conv,
    Dense,
    Layer,
    Residual,
    Shape,
    SparseLinear,
    SpatialTransformer,
    TransformerBlock,
    shapes_along,
)

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
            return 2 * prod(before) * units
        case TransformerBlock(expansion=expansion):
            tokens, width = before
            # Four matrices of width x width in attention, and two that are `expansion` times as wide; then the products
            # of queries with keys, and of their weights with values.
            return 2 * tokens * width * width * (4 + 2 * expansion) + 4 * tokens * tokens * width
        case Conv(size=size):
            return 2 * prod(after) * before[2] * size * size
        case SparseLinear(nonzeros=nonzeros):
            return 2 * nonzeros
        case Residual(inner):
            shortcut = 2 * prod(after) * before[-1] if after != before else 0
            return _forward(inner, before) + shortcut + prod(after)
        case SpatialTransformer(localisation):
            return _forward(localisation, before) + _OPERATIONS_PER_PIXEL * prod(after)
        case _:
            return prod(before)
