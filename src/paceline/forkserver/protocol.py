"""The packets between a fork server and its client, over a pair of connected sockets that also carry descriptors."""

import socket
from collections.abc import Sequence

import msgspec

_MAX_BYTES = 64 * 1024
_MAX_DESCRIPTORS = 4


class Packet(msgspec.Struct, frozen=True, tag=True):
    """Base class of all packets."""


class Ready(Packet, frozen=True):
    """The first packet of a fork server: its modules are imported."""

    obstacle: str | None = None
    """Why it cannot fork; None if it can."""


class ForkRequest(Packet, frozen=True):
    """Fork a process. Comes with four descriptors: its stdin, stdout and stderr, and the pipe for its exit code."""

    argv: list[str]
    """A command of the form PYTHON -m MODULE ARGUMENTS."""
    network_namespace: str | None = None
    """Path of the network namespace that the process enters; None is that of the fork server."""
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    """Environment variables of the process beside those of the fork server."""


class Forked(Packet, frozen=True):
    """The process exists. Comes with one descriptor: its pidfd."""

    pid: int


class ForkFailed(Packet, frozen=True):
    """The system refused to fork."""

    errno: int
    reason: str


_DECODER = msgspec.msgpack.Decoder(Ready | ForkRequest | Forked | ForkFailed)


def connected_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that keep the boundaries of packets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(connection: socket.socket, packet: Packet, descriptors: Sequence[int] = ()) -> None:
    data = msgspec.msgpack.encode(packet)
    if len(data) > _MAX_BYTES:
        raise OSError(f"a packet of {len(data)} bytes is too large for a fork server: at most {_MAX_BYTES} can be sent")
    socket.send_fds(connection, [data], descriptors)


def receive(connection: socket.socket) -> tuple[Packet, list[int]] | None:
    """The next packet with its descriptors; None when the other side has closed the connection or has ended."""
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, _MAX_BYTES, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    return (_DECODER.decode(data), descriptors) if data else None
