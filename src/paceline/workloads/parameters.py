"""The parameters of a model: by name, as one vector, as shards of that vector, and their initial values."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.spec.training import Initialisation

Vector = NDArray[np.float32]
Parameters = dict[str, Vector]
"""Parameter name -> values."""
_BLOCK = 2**20
"""Values are drawn in blocks of this many, each with a seed of its own, so that a task that needs a part of the values
draws little more than that part."""


class ParameterShape(msgspec.Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    bound: float = 0.0
    """Initial values are uniform between -bound and bound; 0 if bound is 0."""
    values: tuple[float, ...] = ()
    """Fixed initial values, if they are not drawn at random."""
    fixed: bool = False
    """Whether the initial values are part of the layer, so that the user cannot choose others."""
    init: Initialisation | None = None
    """The distribution of the initial values, if the user chose one; it takes the place of `bound`."""

    @property
    def size(self) -> int:
        return prod(self.shape)


def views(vector: Vector, shapes: Sequence[ParameterShape]) -> Parameters:
    """The parameters by name, as views into `vector`: writing one writes the other."""
    parameters, start = {}, 0
    for parameter in shapes:
        parameters[parameter.name] = vector[start : start + parameter.size].reshape(parameter.shape)
        start += parameter.size
    if start != vector.size:
        raise ValueError(f"the vector has {vector.size} values: the parameters need {start}")
    return parameters


def by_name(shapes: Sequence[ParameterShape], values: Sequence[Vector]) -> Parameters:
    return {shape.name: value for shape, value in zip(shapes, values, strict=True)}


def shards(size: int, servers: int) -> list[slice]:
    """Contiguous parts of equal size, one per server; the first ones have one value more if `size` is not divisible."""
    length, remainder = divmod(size, servers)
    bounds = [0]
    for number in range(servers):
        bounds.append(bounds[-1] + length + (number < remainder))
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def initial_values(shapes: Sequence[ParameterShape], seed: int, part: slice | None = None) -> Vector:
    """The vector of initial values, or a part of it; the values do not depend on which part is requested."""
    total = sum(parameter.size for parameter in shapes)
    start, stop = (part.start, part.stop) if part else (0, total)
    vector = np.zeros(stop - start, np.float32)
    offset = 0
    for number, parameter in enumerate(shapes):
        low, high = max(start, offset) - offset, min(stop, offset + parameter.size) - offset
        if low < high:
            _fill(vector[offset + low - start : offset + high - start], parameter, low, [seed, 0x1417, number])
        offset += parameter.size
    return vector


def _fill(out: Vector, parameter: ParameterShape, low: int, seed: list[int]) -> None:
    """Write the initial values of a parameter to `out`, starting with value number `low`."""
    if parameter.values:
        out[:] = parameter.values[low : low + out.size]
    elif parameter.init or parameter.bound:
        for block in range(low // _BLOCK, (low + out.size - 1) // _BLOCK + 1):
            start, stop = block * _BLOCK, min((block + 1) * _BLOCK, parameter.size)
            drawn = _draw(parameter, stop - start, np.random.default_rng([*seed, block]))
            first, last = max(start, low), min(stop, low + out.size)
            out[first - low : last - low] = drawn[first - start : last - start]


def _draw(parameter: ParameterShape, count: int, random: np.random.Generator) -> Vector:
    init = parameter.init or Initialisation("uniform", -parameter.bound, parameter.bound)
    if init.kind == "normal":
        return random.standard_normal(count, np.float32) * np.float32(init.deviation)
    drawn = random.random(count, np.float32)
    drawn -= np.float32(0.5)
    drawn *= np.float32(init.high - init.low)
    if init.high + init.low:
        drawn += np.float32((init.high + init.low) / 2)
    return drawn
