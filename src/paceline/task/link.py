"""The process that measures links: one on each host, in a ring. Each host sends to the next, one after the other."""

import hmac
import logging
import os
import socket
import sys
import time
import traceback

import msgspec

from paceline.task.channel import Channel
from paceline.task.lifeline import die_with_parent

SEND_S = 0.3
_SKIP_S = 0.1
"""A connection takes a while to come up to speed, and a limited link lets the first bytes through at once."""
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
    """MB/s, of all but the first moments."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_PATIENCE_S)
            if hmac.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token.encode()):
                return _rate_of(connection)


def _rate_of(connection: socket.socket) -> float:
    buffer = bytearray(len(_CHUNK))
    opened = time.monotonic()
    counted, since, last = 0, opened, opened
    while got := connection.recv_into(buffer):
        last = time.monotonic()
        if last - opened < _SKIP_S:
            since = last
        else:
            counted += got
    return counted / max(last - since, 1e-9) / 1e6


if __name__ == "__main__":
    main()
