"""The layers with which a user describes a model that every engine can build."""

from paceline.workloads.layers import (
    AveragePool,
    Conv,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    LayerNorm,
    MaxPool,
    Relu,
    Residual,
    Sigmoid,
    SparseLinear,
    SpatialTransformer,
    Tanh,
    TransformerBlock,
)

__all__ = [
    "AveragePool",
    "Conv",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "LayerNorm",
    "MaxPool",
    "Relu",
    "Residual",
    "Sigmoid",
    "SparseLinear",
    "SpatialTransformer",
    "Tanh",
    "TransformerBlock",
]
