"""All parameters of a model as one vector, and the vector cut into shards for several servers."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from paceline.workloads.model import Parameters, ParameterShape

Vector = NDArray[np.float32]


def flatten(parameters: Parameters) -> Vector:
    return np.concatenate([value.ravel() for value in parameters.values()])


def views(vector: Vector, shapes: Sequence[ParameterShape]) -> Parameters:
    """The parameters as windows into `vector`: writing one writes the other."""
    found, start = {}, 0
    for parameter in shapes:
        found[parameter.name] = vector[start : start + parameter.size].reshape(parameter.shape)
        start += parameter.size
    if start != vector.size:
        raise ValueError(f"{vector.size} values for parameters of {start}")
    return found


def shards(size: int, servers: int) -> list[slice]:
    """Equal contiguous parts, the first ones longer by one where it does not divide."""
    share, rest = divmod(size, servers)
    cuts = [0]
    for number in range(servers):
        cuts.append(cuts[-1] + share + (number < rest))
    return [slice(a, b) for a, b in pairwise(cuts)]
