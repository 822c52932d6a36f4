"""Notices connections that are dead without having been closed, because a link between hosts was cut.

A cut link says nothing to either side: who waits for an answer waits for a quarter of an hour. gloo and gRPC have no
setting against that, so this looks at all connections of the process, once a second. What counts is whether the other
host's kernel still answers: a process that is slow, busy or stopped does not make its host silent.
"""

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

SILENCE_S = 7.0
"""A cut may be shorter; after one of 5 s the kernel tries again when 6.2 s are over."""
_LOOK_EVERY_S = 1.0
_ESTABLISHED = 1
_INFO = struct.Struct("<8B24I4Q3I")
_KEEPALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 30}
"""Seconds until an idle connection asks for a sign of life, and between tries; so many that the kernel leaves the
verdict to us."""
_FEW = 2
"""So many tries without an answer may be bad luck."""


class Health(NamedTuple):
    """What the kernel knows of a connection."""

    established: bool
    retransmits: int
    probes: int
    unacknowledged: int
    unsent: int
    silent_s: float
    """Since anything was acknowledged."""

    @property
    def is_dead(self) -> bool:
        """Data that nobody takes is no proof: the other process may be slow and its buffers full."""
        in_flight = self.unacknowledged > 0 and self.retransmits > _FEW
        idle = not self.unacknowledged and not self.unsent and self.probes > _FEW
        return self.established and self.silent_s > SILENCE_S and (in_flight or idle)


def watch(own_address: str, on_dead: Callable[[str, float], None]) -> None:
    """Calls `on_dead(address, seconds)` once, from a thread of its own, if a connection to another host is dead."""
    if not hasattr(socket, "TCP_INFO") or own_address.startswith("127."):
        return

    def look() -> None:
        pause = threading.Event()
        while not pause.wait(_LOOK_EVERY_S):
            for address, health in connections():
                if address != own_address and health.is_dead:
                    on_dead(address, health.silent_s)
                    return

    threading.Thread(target=look, name="connections", daemon=True).start()


def connections() -> Iterator[tuple[str, Health]]:
    """Every TCP connection of this process, by the other side's address; from now on each asks for signs of life."""
    for name in os.listdir("/proc/self/fd"):
        # It may be closed by now, or be no connection.
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                        yield str(one.getpeername()[0]).removeprefix("::ffff:"), _health(one)


def _health(one: socket.socket) -> Health:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        one.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return parse(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))


def parse(info: bytes) -> Health:
    """From the kernel's tcp_info; what an old kernel leaves out is 0."""
    fields = _INFO.unpack(info.ljust(_INFO.size, b"\0"))
    return Health(
        established=fields[0] == _ESTABLISHED,
        retransmits=fields[2],
        probes=fields[3],
        unacknowledged=fields[12],
        silent_s=fields[20] / 1e3,
        unsent=fields[38],
    )
