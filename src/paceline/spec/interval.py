"""The interval between checkpoints: a number of updates, or a time."""

import math
from typing import Literal

import msgspec

from paceline import units
from paceline.errors import SpecError

_MAX_DIGITS = 15
"""More digits than any run has updates; also keeps the number exact as a float."""


class Interval(msgspec.Struct, frozen=True):
    """A period of `value` updates or of `value` seconds."""

    unit: Literal["updates", "seconds"]
    value: float

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """Read `500` as updates and `30s` as a time."""
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text):
            return cls("updates", int(text))
        try:
            seconds = units.seconds(text)
        except SpecError:
            seconds = 0.0
        if not 0 < seconds < math.inf:
            raise SpecError(
                f"checkpoint-every '{text}': must be a number of updates above 0, e.g. 500, or a time above 0, e.g. 30s"
            )
        return cls("seconds", seconds)
