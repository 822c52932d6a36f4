"""Detects TCP connections that are dead without having been closed, because the link between two hosts was cut.

Neither side is notified of a cut link: a task would wait for an answer for about a quarter of an hour, until the kernel
gives up. gloo and gRPC have no setting for this, so a thread checks all connections of the process once a second. The
criterion is whether the kernel of the other host still acknowledges packets: it does so even while the process there is
slow, busy or stopped.
"""

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

SILENCE_S = 7.0
"""A connection without any acknowledgement for this many seconds can be dead. Cuts of up to 5 s must not count: after
one of 5 s, the next retransmission, which is acknowledged, comes 6.2 s after the start of the cut."""
_CHECK_EVERY_S = 1.0
_ESTABLISHED = 1
"""The TCP state TCP_ESTABLISHED in tcp_info."""
_TCP_INFO = struct.Struct("<8B24I4Q3I")
"""The first part of the kernel's struct tcp_info, up to tcpi_notsent_bytes."""
_KEEPALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 30}
"""Seconds until the kernel probes an idle connection, seconds between probes, and the number of probes after which the
kernel closes it: large enough that this module decides first."""
_TOLERATED_TRIES = 2
"""This many retransmissions or probes without an answer may be lost by chance."""


class Health(NamedTuple):
    """What the kernel reports about one connection."""

    established: bool
    retransmits: int
    """Retransmissions without an answer."""
    probes: int
    """Keep-alive (or zero-window) probes without an answer."""
    unacknowledged: int
    """Packets sent and not acknowledged."""
    unsent: int
    """Bytes waiting to be sent."""
    silent_s: float
    """Seconds since the other host last acknowledged anything."""

    @property
    def is_dead(self) -> bool:
        """Whether the other host no longer answers.

        Unsent data alone does not make a connection dead: the other process may read slowly and its buffers be full.
        """
        in_flight = self.unacknowledged > 0 and self.retransmits > _TOLERATED_TRIES
        idle = not self.unacknowledged and not self.unsent and self.probes > _TOLERATED_TRIES
        return self.established and self.silent_s > SILENCE_S and (in_flight or idle)


def watch(own_address: str, on_dead: Callable[[str, float], None]) -> None:
    """Start a thread that calls `on_dead(address, silent_s)` once, when a connection to another host is dead."""
    if not hasattr(socket, "TCP_INFO") or own_address.startswith("127."):
        return

    def check() -> None:
        never_set = threading.Event()
        while not never_set.wait(_CHECK_EVERY_S):
            for address, health in connections():
                if address != own_address and health.is_dead:
                    on_dead(address, health.silent_s)
                    return

    threading.Thread(target=check, name="connections", daemon=True).start()


def connections() -> Iterator[tuple[str, Health]]:
    """Every TCP connection of this process as (address of the other side, health).

    Keep-alive probes are switched on for each of them, so that idle connections are tested as well.
    """
    for descriptor in os.listdir("/proc/self/fd"):
        # Skip a descriptor that was closed meanwhile, and a socket that is not connected.
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                        yield str(connection.getpeername()[0]).removeprefix("::ffff:"), _health(connection)


def _health(connection: socket.socket) -> Health:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return _parse(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))


def _parse(info: bytes) -> Health:
    """Decode the kernel's tcp_info; fields that an old kernel does not have are 0."""
    fields = _TCP_INFO.unpack(info.ljust(_TCP_INFO.size, b"\0"))
    return Health(
        established=fields[0] == _ESTABLISHED,
        retransmits=fields[2],
        probes=fields[3],
        unacknowledged=fields[12],
        silent_s=fields[20] / 1e3,
        unsent=fields[38],
    )
