"""How often something is done: every so many updates, or seconds."""

import math
from typing import Literal

import msgspec

from paceline import units
from paceline.errors import SpecError


class Interval(msgspec.Struct, frozen=True):
    unit: Literal["updates", "seconds"]
    value: float

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """`500` is updates, `30s` is time."""
        if text.isascii() and text.isdigit() and 0 < int(text) < 2**53:
            return cls("updates", int(text))
        try:
            seconds = units.seconds(text)
        except SpecError:
            seconds = 0.0
        if not 0 < seconds < math.inf:
            raise SpecError(f"checkpoint-every '{text}': write a number of updates, 500, or a time, 30s")
        return cls("seconds", seconds)
