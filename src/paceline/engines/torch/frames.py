"""Frames on a ZeroMQ socket, copied where that is cheaper than keeping track of buffers."""

import zmq

ZERO_COPY_BYTES = 256 * 1024
"""From this size on a copy costs more than the bookkeeping that avoids it."""
HEARTBEAT_MS = 2_000
LINGER_MS = 2_000


def receive(socket: "zmq.Socket[bytes]", *, large: bool) -> list[bytes | memoryview]:
    if not large:
        return list(socket.recv_multipart())
    return [frame.buffer for frame in socket.recv_multipart(copy=False)]


def send(socket: "zmq.Socket[bytes]", *frames: bytes, large: bool) -> None:
    socket.send_multipart(frames, copy=not large)
