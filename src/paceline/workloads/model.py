"""A model described once, for every engine: a short list of layers, and its first weights from NumPy."""

from math import prod, sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

Parameters = dict[str, NDArray[np.float32]]


class Dense(msgspec.Struct, frozen=True, tag=True):
    """x @ weight + bias."""

    units: int


class Relu(msgspec.Struct, frozen=True, tag=True):
    pass


Layer = Dense | Relu


class ParameterShape(msgspec.Struct, frozen=True):
    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)


class Model(msgspec.Struct, frozen=True):
    """A classifier: layers over a flat input, then softmax cross-entropy over integer labels, as a mean."""

    inputs: int
    layers: tuple[Layer, ...]

    def parameters(self) -> tuple[ParameterShape, ...]:
        """Every parameter, in the order in which engines keep them."""
        width, found = self.inputs, []
        for number, layer in enumerate(self.layers):
            if isinstance(layer, Dense):
                found += [
                    ParameterShape(f"{number}.weight", (width, layer.units)),
                    ParameterShape(f"{number}.bias", (layer.units,)),
                ]
                width = layer.units
        return tuple(found)

    def initial(self, seed: int) -> Parameters:
        """First weights: uniform by fan-in and fan-out (Glorot), biases zero; the same for every engine."""
        random = np.random.default_rng([seed, 0x1417])
        values: Parameters = {}
        for parameter in self.parameters():
            if len(parameter.shape) == 1:
                values[parameter.name] = np.zeros(parameter.shape, np.float32)
            else:
                bound = sqrt(6 / sum(parameter.shape))
                values[parameter.name] = random.uniform(-bound, bound, parameter.shape).astype(np.float32)
        return values
