"""What workers and parameter servers say to each other: a fixed header, then raw float32 values. No pickle."""

import struct
from enum import IntEnum

import msgspec


class Op(IntEnum):
    PULL = 1
    """Give me the parameters and leave to make a step."""
    PUSH = 2
    """Here is my gradient; give me the parameters and leave for the next step."""
    STOP = 3
    """From the chief: no further updates."""
    FINAL = 4
    """From the chief: the parameters, once all others have left."""
    LEAVE = 5
    """I make no more steps."""


_REQUEST = struct.Struct("<4sBxxxQ")
_REPLY = struct.Struct("<4sBBxxQqQ")
_MAGIC = b"PLP1"
HEADER_BYTES = max(_REQUEST.size, _REPLY.size)


class WireError(ValueError):
    """A message that is not one of ours."""


class Request(msgspec.Struct, frozen=True):
    op: Op
    version: int = 0
    """The update count of the parameters the gradient was computed from."""

    def pack(self) -> bytes:
        return _REQUEST.pack(_MAGIC, self.op, self.version)

    @classmethod
    def unpack(cls, data: bytes) -> "Request":
        if len(data) != _REQUEST.size:
            raise WireError(f"a request header of {len(data)} bytes")
        magic, op, version = _REQUEST.unpack(data)
        if magic != _MAGIC or op not in Op._value2member_map_:
            raise WireError("not a request")
        return cls(Op(op), version)


class Reply(msgspec.Struct, frozen=True):
    update: int
    """Updates so far."""
    more: bool
    """Leave to make another step."""
    applied: bool = True
    """False if the gradient came too late and was dropped."""
    staleness: int = -1
    waited_ns: int = 0
    """How long the server held the answer back for other workers."""

    def pack(self) -> bytes:
        return _REPLY.pack(_MAGIC, self.more, self.applied, self.update, self.staleness, self.waited_ns)

    @classmethod
    def unpack(cls, data: bytes) -> "Reply":
        if len(data) != _REPLY.size:
            raise WireError(f"a reply header of {len(data)} bytes")
        magic, more, applied, update, staleness, waited_ns = _REPLY.unpack(data)
        if magic != _MAGIC:
            raise WireError("not a reply")
        return cls(update, bool(more), bool(applied), staleness, waited_ns)
