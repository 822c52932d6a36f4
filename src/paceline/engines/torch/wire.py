"""What workers and parameter servers say to each other: a fixed header, then raw float32 values. No pickle."""

import struct
from enum import IntEnum
from typing import Any

import msgspec

Buffer = Any
"""Bytes, or whatever has a buffer of them."""


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


_REQUEST = struct.Struct("<4sB3xQ")
_REPLY = struct.Struct("<4sBB2xQqQ")
_MAGIC = b"PLP1"
HEADER_BYTES = max(_REQUEST.size, _REPLY.size)


class WireError(ValueError):
    """A message that is not one of ours."""


class Request(msgspec.Struct, frozen=True):
    op: Op
    version: int = 0
    """The update count of the parameters the gradient was computed from."""

    def pack(self, values: Buffer = b"") -> bytes:
        # One frame: header and values apart would be encrypted, sent and woken up for twice.
        return b"".join((_REQUEST.pack(_MAGIC, self.op, self.version), values))

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> tuple["Request", memoryview]:
        if len(data) < _REQUEST.size:
            raise WireError(f"a request of {len(data)} bytes")
        magic, op, version = _REQUEST.unpack_from(data)
        if magic != _MAGIC or op not in _OPS:
            raise WireError("not a request")
        return cls(_OPS[op], version), memoryview(data)[_REQUEST.size :]


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

    def pack(self, values: Buffer = b"") -> bytes:
        header = _REPLY.pack(_MAGIC, self.more, self.applied, self.update, self.staleness, self.waited_ns)
        return b"".join((header, values))

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> tuple["Reply", memoryview]:
        if len(data) < _REPLY.size:
            raise WireError(f"a reply of {len(data)} bytes")
        magic, more, applied, update, staleness, waited_ns = _REPLY.unpack_from(data)
        if magic != _MAGIC:
            raise WireError("not a reply")
        return cls(update, bool(more), bool(applied), staleness, waited_ns), memoryview(data)[_REPLY.size :]


_OPS = {int(op): op for op in Op}
