"""The process that measures links: one on each host, in a ring. Each host sends to the next, one after the other."""

import hmac
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Sequence

import msgspec

from paceline.task.channel import Channel
from paceline.task.lifeline import die_with_parent

SEND_S = 0.5
_SKIP_S = 0.1
"""A connection takes a while to come up to speed, and a limited link lets the first bytes through at once."""
_STRETCH_S = 0.1
_CHUNK = bytes(256 * 1024)
_PATIENCE_S = 20.0


class LinkOrder(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    address: str
    ring: tuple[str, ...]
    """All hosts, in the order in which they send."""
    token: str
    """Known to this run's hosts only."""


class LinkRate(msgspec.Struct, frozen=True, kw_only=True):
    """What came in from the host before."""

    sender: str
    receiver: str
    mb_s: float


def main() -> None:
    die_with_parent()
    logging.basicConfig(level=logging.INFO)
    channel = Channel.take_over_stdio(LinkOrder)
    try:
        channel.finished(_measure(channel))
        code = 0
    except Exception as error:
        traceback.print_exc()
        channel.failed(f"{type(error).__name__}: {error}", traceback.format_exc())
        code = 1
    sys.stderr.flush()
    os._exit(code)


def _measure(channel: "Channel[LinkOrder]") -> LinkRate:
    order = channel.order
    with socket.create_server((order.address, 0)) as listener:
        listener.settimeout(_PATIENCE_S)
        peers = channel.meet({"link": f"{order.address}:{listener.getsockname()[1]}"})
        here = order.ring.index(order.host)
        after, before = order.ring[(here + 1) % len(order.ring)], order.ring[here - 1]
        # The first begins; everyone else's turn is when the one before is done.
        if here == 0:
            _send(peers[f"link-{after}"]["link"], order.token)
        rate = _receive(listener, order.token)
        if here > 0:
            _send(peers[f"link-{after}"]["link"], order.token)
    return LinkRate(sender=before, receiver=order.host, mb_s=rate)


def _send(address: str, token: str) -> None:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=_PATIENCE_S) as connection:
        connection.sendall(token.encode())
        end = time.monotonic() + SEND_S
        while time.monotonic() < end:
            connection.sendall(_CHUNK)


def _receive(listener: socket.socket, token: str) -> float:
    """MB/s, in the best stretch after the first moments."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_PATIENCE_S)
            if hmac.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token.encode()):
                return _rate_of(connection)


def _rate_of(connection: socket.socket) -> float:
    buffer = bytearray(len(_CHUNK))
    opened, total, seen = time.monotonic(), 0, [(0.0, 0)]
    while got := connection.recv_into(buffer):
        total += got
        seen.append((time.monotonic() - opened, total))
    return best_rate([point for point in seen if point[0] >= _SKIP_S] or seen) / 1e6


def best_rate(seen: Sequence[tuple[float, int]]) -> float:
    """Bytes a second in the fullest stretch; in all of it, if it is shorter. A link can carry what it once did, while
    what holds it up for a moment (a connection that feels its way, a busy core) is not the link's."""
    best, start = 0.0, 0
    for end_s, total in seen:
        while start + 1 < len(seen) and end_s - seen[start + 1][0] >= _STRETCH_S:
            start += 1
        if end_s - seen[start][0] >= _STRETCH_S:
            best = max(best, (total - seen[start][1]) / (end_s - seen[start][0]))
    span = seen[-1][0] - seen[0][0]
    return best or (seen[-1][1] - seen[0][1]) / max(span, 1e-9)


if __name__ == "__main__":
    main()
