"""The process that measures the network links between hosts, one process per host.

The hosts form a ring: each sends to the next one, one host after the other, and the receiver measures the rate.
"""

import hmac
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Sequence

from paceline.messages.link_probe import SEND_S, LinkOrder, LinkRate
from paceline.task.channel import Channel
from paceline.task.lifeline import die_with_parent

_SKIP_S = 0.1
"""The first part of a transfer is not measured: TCP needs time to reach the full rate, and a rate limit lets a burst
through at the start."""
_WINDOW_S = 0.1
"""The rate is measured over windows of at least this length."""
_CHUNK = bytes(256 * 1024)
_TIMEOUT_S = 20.0


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
        listener.settimeout(_TIMEOUT_S)
        peers = channel.exchange_addresses({"link": f"{order.address}:{listener.getsockname()[1]}"})
        position = order.ring.index(order.host)
        next_host, previous_host = order.ring[(position + 1) % len(order.ring)], order.ring[position - 1]
        # The first host sends at once; every other host sends when it has received everything from the previous one.
        if position == 0:
            _send(peers[f"link-{next_host}"]["link"], order.token)
        mb_s = _receive(listener, order.token)
        if position > 0:
            _send(peers[f"link-{next_host}"]["link"], order.token)
    return LinkRate(sender=previous_host, receiver=order.host, mb_s=mb_s)


def _send(address: str, token: str) -> None:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as connection:
        connection.sendall(token.encode())
        end = time.monotonic() + SEND_S
        while time.monotonic() < end:
            connection.sendall(_CHUNK)


def _receive(listener: socket.socket, token: str) -> float:
    """Accept the connection that knows the token; returns the best rate of its transfer in MB/s."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_TIMEOUT_S)
            if hmac.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token.encode()):
                return _measure_rate(connection)


def _measure_rate(connection: socket.socket) -> float:
    """Read until the sender closes the connection; returns the best rate in MB/s."""
    buffer = bytearray(len(_CHUNK))
    opened, total, progress = time.monotonic(), 0, [(0.0, 0)]
    while received := connection.recv_into(buffer):
        total += received
        progress.append((time.monotonic() - opened, total))
    return best_rate([point for point in progress if point[0] >= _SKIP_S] or progress) / 1e6


def best_rate(progress: Sequence[tuple[float, int]]) -> float:
    """Bytes per second in the best window of a transfer, or in all of it if it is shorter than a window.

    `progress` is a list of (seconds, bytes received so far). The best window counts because the link has carried that
    much; a slower moment may be due to TCP's search for the rate or to a busy core, not to the link.
    """
    best, start = 0.0, 0
    for end_s, total in progress:
        while start + 1 < len(progress) and end_s - progress[start + 1][0] >= _WINDOW_S:
            start += 1
        if end_s - progress[start][0] >= _WINDOW_S:
            best = max(best, (total - progress[start][1]) / (end_s - progress[start][0]))
    duration_s = progress[-1][0] - progress[0][0]
    return best or (progress[-1][1] - progress[0][1]) / max(duration_s, 1e-9)


if __name__ == "__main__":
    main()
