"""Sends and receives messages on a ZeroMQ socket with as few frames and copies as possible.

A small message is one frame: header and values in two frames would be encrypted and sent twice and would wake the
receiver twice. A large message is two frames, and its values are handed to ZeroMQ without a copy.
"""

import zmq

from paceline.paramserver.wire import Buffer, WireError

ZERO_COPY_BYTES = 256 * 1024
"""From this size on, a copy costs more than the bookkeeping that avoids it."""
HEARTBEAT_MS = 2_000
HEARTBEAT_TIMEOUT_MS = 20_000
"""ZeroMQ closes a connection whose peer has not answered a heartbeat for this long. Long, because a stopped process
answers no heartbeat either, and the controller's search for the stuck task must be finished by then. A cut network link
is noticed earlier, by the task's check of its TCP connections."""
LINGER_MS = 2_000
"""How long closing a socket waits for messages that are not sent yet."""
_MAX_FRAMES = 2


def set_heartbeat(socket: "zmq.Socket[bytes]") -> None:
    """Send heartbeats: a network link may be cut without an error at either end."""
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)


def send(socket: "zmq.Socket[bytes]", header: bytes, values: Buffer = b"") -> None:
    """Send a message. Large values are not copied: they must not change until the receiver has replied."""
    size = memoryview(values).nbytes
    if size >= ZERO_COPY_BYTES:
        socket.send(header, zmq.SNDMORE)
        socket.send(values, 0, False)
    else:
        socket.send(b"".join((header, values)) if size else header)


def receive(socket: "zmq.Socket[bytes]") -> list[Buffer]:
    """The frames of the next message; WireError if there are too many.

    They are received one by one because pyzmq's multipart functions take three times as long.
    """
    frames: list[Buffer] = [socket.recv()]
    while socket.getsockopt(zmq.RCVMORE):
        frame = socket.recv(copy=False).buffer
        if len(frames) <= _MAX_FRAMES:
            frames.append(frame)
    if len(frames) > _MAX_FRAMES:
        raise WireError(f"the message has more than {_MAX_FRAMES} frames")
    return frames
