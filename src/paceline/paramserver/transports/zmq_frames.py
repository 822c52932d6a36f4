"""Messages on a ZeroMQ socket, copied where that is cheaper than keeping track of buffers.

A small message is one frame: header and values apart would be encrypted, sent and woken up for twice. A large one is
two, its values handed over where they lie.
"""

import zmq

from paceline.paramserver.wire import Buffer, WireError

ZERO_COPY_BYTES = 256 * 1024
"""From this size on a copy costs more than the bookkeeping that avoids it."""
HEARTBEAT_MS = 2_000
SILENCE_MS = 20_000
"""A peer that has not answered a heartbeat for so long is given up. A stopped process answers none either, and who is
stuck, and where, is found out by then; a cut link is seen sooner, by task.connections."""
LINGER_MS = 2_000
_MOST_FRAMES = 2


def set_heartbeat(socket: "zmq.Socket[bytes]") -> None:
    """A link may be cut without either end being told."""
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE_MS)


def send(socket: "zmq.Socket[bytes]", head: bytes, values: Buffer = b"") -> None:
    """Large values must stay as they are until the other side has answered."""
    size = memoryview(values).nbytes
    if size >= ZERO_COPY_BYTES:
        socket.send(head, zmq.SNDMORE)
        socket.send(values, 0, False)
    else:
        socket.send(b"".join((head, values)) if size else head)


def receive(socket: "zmq.Socket[bytes]") -> list[Buffer]:
    """The frames of the next message. One by one: pyzmq's multipart helpers cost three times what the frames do."""
    found: list[Buffer] = [socket.recv()]
    while socket.getsockopt(zmq.RCVMORE):
        frame = socket.recv(copy=False).buffer
        if len(found) <= _MOST_FRAMES:
            found.append(frame)
    if len(found) > _MOST_FRAMES:
        raise WireError("too many frames")
    return found
