"""Options of training that are text with a structure, such as the initial weights and the order of the examples."""

import math
from typing import Literal

import msgspec

from paceline.errors import SpecError

_NUMBERS = {"normal": 1, "uniform": 2, "constant": 1}
"""How many numbers follow the name of each distribution."""
_EXAMPLES = "normal:1 (standard deviation), uniform:-10:10 (lowest and highest) or constant:0"


class Initialisation(msgspec.Struct, frozen=True):
    """The distribution of the initial weights and biases."""

    kind: Literal["normal", "uniform"]
    low: float = 0.0
    """Lowest and highest value if it is uniform."""
    high: float = 0.0
    deviation: float = 0.0
    """Standard deviation if it is normal, with mean 0."""

    @classmethod
    def parse(cls, text: str) -> "Initialisation":
        """Read `normal:1`, `uniform:-10:10` or `constant:0`."""
        kind, *words = text.split(":")
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            numbers = []
        if len(numbers) != _NUMBERS.get(kind) or not all(map(math.isfinite, numbers)):
            raise SpecError(f"init '{text}': must be {_EXAMPLES}")
        if kind == "normal":
            if numbers[0] <= 0:
                raise SpecError(f"init '{text}': the standard deviation must be above 0")
            return cls("normal", deviation=numbers[0])
        low, high = numbers[0], numbers[-1]
        if low > high:
            raise SpecError(f"init '{text}': the lowest value must not be above the highest")
        return cls("uniform", low, high)


def shuffle_buffer(text: str) -> int | None:
    """Examples in the buffer from which the next one is drawn: None for `all`, 0 for `none`, else the number."""
    if text == "all":
        return None
    if text == "none":
        return 0
    if text.isascii() and text.isdigit() and 1 <= len(text) <= 9 and int(text):
        return int(text)
    raise SpecError(f"shuffle '{text}': must be all, none, or the number of examples in a buffer, e.g. 10000")


def read_staleness_bound(text: str) -> int | None:
    """How many steps a worker may be ahead of the slowest; None for `inf`."""
    if text == "inf":
        return None
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    raise SpecError(f"staleness_bound '{text}': must be a number of steps, 0 or more, or inf")
