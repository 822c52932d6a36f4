"""Clipping a gradient that several servers have parts of: the norm is that of the whole gradient.

When a server has the gradients of all workers, it sends the squared norm of its part of their mean to the chief and
waits. The chief adds up the parts and sends the sum to all servers, which then make the update. This is one more round
trip between the chief and the servers in each update.
"""

import struct
from collections.abc import Iterable, Sequence

from paceline.paramserver.transports.connection import ServerConnection
from paceline.paramserver.wire import Buffer, Op, Request, WireError
from paceline.train.context import Job

_NORM = struct.Struct("<d")


def pack_norm(squared_norm: float) -> bytes:
    return _NORM.pack(squared_norm)


def unpack_norm(payload: Buffer) -> float:
    """The squared norm; WireError if the payload is something else."""
    if (size := memoryview(payload).nbytes) != _NORM.size:
        raise WireError(f"a squared norm has {_NORM.size} bytes, the payload has {size}")
    (squared_norm,) = _NORM.unpack(payload)
    if squared_norm < 0:
        raise WireError(f"a squared norm must not be negative, but is {squared_norm}")
    return float(squared_norm)


def adds_up_norms(job: Job) -> bool:
    """Whether the worker of this job adds up the norms of the servers' parts: the chief does, if servers clip."""
    return job.is_chief and job.synchronous and job.servers > 1 and job.optimizer.clip is not None


def add_up_norms(connections: Sequence[ServerConnection]) -> None:
    """The chief's part in an update: called after it has pushed all of its gradient, before it receives replies."""
    total = pack_norm(sum(_received_norms(connections)))
    for connection in connections:
        connection.send(Request(Op.CLIP), total)


def _received_norms(connections: Iterable[ServerConnection]) -> Iterable[float]:
    # Always in the order of the servers, so that a run gives the same bits every time.
    for connection in connections:
        _, payload = connection.receive()
        yield unpack_norm(payload)
