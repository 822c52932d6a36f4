"""What workers and parameter servers say to each other: a fixed header, then raw values. No pickle."""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

Buffer = Any
"""Bytes, or whatever has a buffer of them."""
Worker = bytes
"""A worker's name."""


class Op(IntEnum):
    PULL = 1
    """Give me a bucket of the parameters."""
    PUSH = 2
    """Here is a bucket of my gradient; give me its parameters and, with the last one, leave for the next step."""
    STOP = 3
    """From the chief: no further updates."""
    FINAL = 4
    """From the chief: tell me once all others have left."""
    LEAVE = 5
    """I make no more steps."""
    START = 8
    """I begin, or come back: give me leave to make a step. With it comes where my memory is, if it is shared."""
    STATE = 9
    """From the chief: give me a bucket of the parameters and of their velocities."""
    KEEP = 10
    """From the chief: I will ask for the state as of the next update."""
    PULL_ROWS = 6
    """Give me the values at these indices."""
    PUSH_ROWS = 7
    """Here are gradients for the values at these indices, and leave for the next step."""


_REQUEST = struct.Struct("<4sB3xIQ")
_REPLY = struct.Struct("<4sBB2xIQqQ")
_MAGIC = b"PLP2"
REPLY_BYTES = _REPLY.size
HEADER_BYTES = max(_REQUEST.size, REPLY_BYTES)


class WireError(ValueError):
    """A message that is not one of ours."""


class Request(msgspec.Struct, frozen=True):
    op: Op
    version: int = 0
    """The update count of the parameters the gradient was computed from."""
    bucket: int = 0
    """With rows: how many indices there are before the values."""

    def head(self) -> bytes:
        return _REQUEST.pack(_MAGIC, self.op, self.bucket, self.version)

    @classmethod
    def unpack(cls, frames: Sequence[Buffer]) -> tuple["Request", Buffer]:
        data = frames[0]
        if len(data) < _REQUEST.size:
            raise WireError(f"a request of {len(data)} bytes")
        magic, op, bucket, version = _REQUEST.unpack_from(data)
        if magic != _MAGIC or op not in _OPS:
            raise WireError("not a request")
        return cls(_OPS[op], version, bucket), _rest(frames, _REQUEST.size)


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
    bucket: int = 0

    def head(self) -> bytes:
        return _REPLY.pack(_MAGIC, self.more, self.applied, self.bucket, self.update, self.staleness, self.waited_ns)

    @classmethod
    def unpack(cls, frames: Sequence[Buffer]) -> tuple["Reply", Buffer]:
        data = frames[0]
        if len(data) < _REPLY.size:
            raise WireError(f"a reply of {len(data)} bytes")
        magic, more, applied, bucket, update, staleness, waited_ns = _REPLY.unpack_from(data)
        if magic != _MAGIC:
            raise WireError("not a reply")
        return cls(update, bool(more), bool(applied), staleness, waited_ns, bucket), _rest(frames, _REPLY.size)


def _rest(frames: Sequence[Buffer], header: int) -> Buffer:
    """The values: in a frame of their own, or behind the header."""
    return frames[1] if len(frames) > 1 else memoryview(frames[0])[header:]


_OPS = {int(op): op for op in Op}
