"""The option compress: how the values that tasks exchange are compressed."""

from typing import Literal, cast

import msgspec

from paceline.errors import SpecError

_ALLOWED = (
    "must be fp16, int8, topk:RATIO with a ratio above 0 and up to 0.5, e.g. topk:0.01, or powersgd:RANK with a rank "
    "from 1 to 64, e.g. powersgd:4"
)
_MAX_RATIO = 0.5
"""Above this, indices and values take more bytes than all values without indices."""
_MAX_RANK = 64


class Compression(msgspec.Struct, frozen=True):
    kind: Literal["fp16", "int8", "topk", "powersgd"]
    ratio: float = 0.0
    """topk: the share of values that is sent."""
    rank: int = 0
    """powersgd: the rank of the matrices that are sent."""

    @classmethod
    def parse(cls, text: str) -> "Compression":
        """Read `fp16`, `int8`, `topk:0.01` or `powersgd:4`."""
        kind, colon, amount = text.partition(":")
        if kind in ("fp16", "int8") and not colon:
            return cls(cast(Literal["fp16", "int8"], kind))
        try:
            if kind == "topk" and 0 < float(amount) <= _MAX_RATIO:
                return cls("topk", ratio=float(amount))
            if kind == "powersgd" and amount.isascii() and amount.isdigit() and 1 <= int(amount) <= _MAX_RANK:
                return cls("powersgd", rank=int(amount))
        except ValueError:
            pass
        raise SpecError(f"compress '{text}': {_ALLOWED}")
