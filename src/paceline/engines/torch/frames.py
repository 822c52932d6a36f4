"""Frames on a ZeroMQ socket, copied where that is cheaper than keeping track of buffers."""

import zmq

ZERO_COPY_BYTES = 256 * 1024
"""From this size on a copy costs more than the bookkeeping that avoids it."""
HEARTBEAT_MS = 2_000
LINGER_MS = 2_000


def receive(socket: "zmq.Socket[bytes]", *, large: bool) -> bytes | memoryview:
    """The next frame. Frame by frame: pyzmq's multipart helpers cost three times what the frames do."""
    return socket.recv(copy=False).buffer if large else socket.recv()


def send(socket: "zmq.Socket[bytes]", frame: bytes, *, large: bool) -> None:
    socket.send(frame, 0, not large)
