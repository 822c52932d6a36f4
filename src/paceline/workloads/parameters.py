"""A model's parameters: by name, as one vector, as parts of that vector, and their first values from the seed."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import msgspec
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Parameters = dict[str, Vector]
_BLOCK = 2**20
"""Values drawn at a time, each block from a seed of its own: whoever needs a part draws little more than it."""


class ParameterShape(msgspec.Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    bound: float = 0.0
    """First values are uniform between -bound and bound."""
    values: tuple[float, ...] = ()
    """First values, where they are not drawn."""

    @property
    def size(self) -> int:
        return prod(self.shape)


def views(vector: Vector, shapes: Sequence[ParameterShape]) -> Parameters:
    """The parameters as windows into `vector`: writing one writes the other."""
    found, start = {}, 0
    for parameter in shapes:
        found[parameter.name] = vector[start : start + parameter.size].reshape(parameter.shape)
        start += parameter.size
    if start != vector.size:
        raise ValueError(f"{vector.size} values for parameters of {start}")
    return found


def by_name(shapes: Sequence[ParameterShape], values: Sequence[Vector]) -> Parameters:
    return {shape.name: value for shape, value in zip(shapes, values, strict=True)}


def shards(size: int, servers: int) -> list[slice]:
    """Equal contiguous parts, the first ones longer by one where it does not divide."""
    share, rest = divmod(size, servers)
    cuts = [0]
    for number in range(servers):
        cuts.append(cuts[-1] + share + (number < rest))
    return [slice(a, b) for a, b in pairwise(cuts)]


def first_values(shapes: Sequence[ParameterShape], seed: int, part: slice | None = None) -> Vector:
    """The vector of first values, or a part of it; the same numbers whichever part is asked for."""
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
    """Values low, low + 1 ... of a parameter."""
    if parameter.values:
        out[:] = parameter.values[low : low + out.size]
    elif parameter.bound:
        for block in range(low // _BLOCK, (low + out.size - 1) // _BLOCK + 1):
            start, stop = block * _BLOCK, min((block + 1) * _BLOCK, parameter.size)
            drawn = np.random.default_rng([*seed, block]).random(stop - start, np.float32)
            drawn -= np.float32(0.5)
            drawn *= np.float32(2 * parameter.bound)
            first, last = max(start, low), min(stop, low + out.size)
            out[first - low : last - low] = drawn[first - start : last - start]
