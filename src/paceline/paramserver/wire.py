"""The messages between workers and parameter servers: a fixed binary header, then raw values.

Nothing is pickled, so a message from a faulty worker cannot run code on a server.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

Buffer = Any
"""Any object with the buffer protocol: bytes, memoryview, NumPy array."""
WorkerName = bytes
"""The name of a worker's task, for example b"w0"."""


class Op(IntEnum):
    """What a request is for. Every request gets one reply, except DONE, SNAPSHOT and CLIP, which get none."""

    PULL = 1
    """Return a bucket of the parameters."""
    PUSH = 2
    """Apply a bucket of the gradient. The reply carries the bucket's new parameters; the reply to a step's last bucket
    also says whether the worker gets a step permit."""
    STOP = 3
    """Apply no further updates. Only the chief may send it."""
    AWAIT_DONE = 4
    """Reply once all other workers have sent DONE. Only the chief may send it."""
    DONE = 5
    """The worker makes no more steps."""
    START = 8
    """The worker starts or has been restarted, and requests a step permit. With shared memory, the payload is the path
    of the worker's segment."""
    STATE = 9
    """Return a bucket of the parameters and the same bucket of their velocities. Only the chief may send it."""
    SNAPSHOT = 10
    """Keep a copy of the velocities of the next update, because STATE will be requested for that update. Only the chief
    may send it."""
    CLIP = 11
    """Make the update whose squared norm the server has sent: the payload is the squared norm of the whole gradient, of
    which several servers have parts (see norm_exchange). The replies to the pushes follow. Only the chief may send
    it."""
    PULL_ROWS = 6
    """Return the values at these indices."""
    PUSH_ROWS = 7
    """Apply gradients to the rows that the worker requested last. The payload also has the indices of the rows that the
    worker needs next; the reply carries their values and says whether the worker gets a step permit."""


_REQUEST = struct.Struct("<4sB3xIQ")
_REPLY = struct.Struct("<4sBB2xIQqQ")
_MAGIC = b"PLP2"
REPLY_BYTES = _REPLY.size
HEADER_BYTES = max(_REQUEST.size, REPLY_BYTES)


class WireError(ValueError):
    """A message is malformed, or the shard cannot accept it."""


class Request(msgspec.Struct, frozen=True):
    op: Op
    version: int = 0
    """The update count of the parameters from which the gradient was computed."""
    bucket: int = 0
    """The number of the bucket among the buckets of this server. With PULL_ROWS and PUSH_ROWS: how many row indices the
    payload has."""

    def header(self) -> bytes:
        return _REQUEST.pack(_MAGIC, self.op, self.bucket, self.version)

    @classmethod
    def unpack(cls, frames: Sequence[Buffer]) -> tuple["Request", Buffer]:
        """The request and its payload; WireError if the header is malformed."""
        data = frames[0]
        if len(data) < _REQUEST.size:
            raise WireError(f"the request has {len(data)} bytes, its header alone has {_REQUEST.size}")
        magic, op, bucket, version = _REQUEST.unpack_from(data)
        if magic != _MAGIC or op not in _OPS:
            raise WireError("the message is not a request: its first bytes or its operation are unknown")
        return cls(_OPS[op], version, bucket), _payload(frames, _REQUEST.size)


class Reply(msgspec.Struct, frozen=True):
    update: int
    """How many updates this shard has made so far."""
    permit: bool
    """True: a step permit, the worker may make another step. False: it must not."""
    applied: bool = True
    """False if the gradient arrived too late and was dropped."""
    staleness: int = -1
    """In ps-async: updates made between the worker's pull and its push. -1 if it does not apply."""
    waited_ns: int = 0
    """How long the server delayed this reply to wait for other workers."""
    bucket: int = 0
    """The bucket number of the request."""

    def header(self) -> bytes:
        return _REPLY.pack(_MAGIC, self.permit, self.applied, self.bucket, self.update, self.staleness, self.waited_ns)

    @classmethod
    def unpack(cls, frames: Sequence[Buffer]) -> tuple["Reply", Buffer]:
        """The reply and its payload; WireError if the header is malformed."""
        data = frames[0]
        if len(data) < _REPLY.size:
            raise WireError(f"the reply has {len(data)} bytes, its header alone has {_REPLY.size}")
        magic, permit, applied, bucket, update, staleness, waited_ns = _REPLY.unpack_from(data)
        if magic != _MAGIC:
            raise WireError("the message is not a reply: its first bytes are unknown")
        return cls(update, bool(permit), bool(applied), staleness, waited_ns, bucket), _payload(frames, _REPLY.size)


def _payload(frames: Sequence[Buffer], header_bytes: int) -> Buffer:
    """The bytes after the header: a separate frame, or the rest of the first frame."""
    return frames[1] if len(frames) > 1 else memoryview(frames[0])[header_bytes:]


_OPS = {int(op): op for op in Op}
