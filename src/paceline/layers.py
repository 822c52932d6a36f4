"""The layers to describe a model of one's own with: every engine can build them."""

from paceline.workloads.layers import (
    AveragePool,
    Conv,
    Dense,
    Dropout,
    Flatten,
    MaxPool,
    Relu,
    Sigmoid,
    SparseLinear,
    SpatialTransformer,
)

__all__ = [
    "AveragePool",
    "Conv",
    "Dense",
    "Dropout",
    "Flatten",
    "MaxPool",
    "Relu",
    "Sigmoid",
    "SparseLinear",
    "SpatialTransformer",
]
