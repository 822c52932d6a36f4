"""The TCP ports on which tasks listen: at random, or in the range that the hosts' firewall admits."""

import errno
import random
import re
import socket
from collections.abc import Callable
from typing import TypeVar

import msgspec

from paceline.errors import RunError, SpecError

T = TypeVar("T")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_LARGEST = 65_535
_BACKLOG = 128
_MAX_ATTEMPTS = 2_000
"""Ports of a large range to try before giving up; only a host with nearly all ports in use needs more than a few."""


class PortRange(msgspec.Struct, frozen=True):
    """The ports from `first` to `last`, both included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "PortRange":
        """`40000-40100`, or one port."""
        match = _RANGE.fullmatch(text.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= _LARGEST:
            raise SpecError(f"ports '{text}': must be one range from 1 to {_LARGEST}, e.g. 40000-40100")
        return cls(first, last)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.first < self.last else str(self.first)

    def in_random_order(self) -> list[int]:
        """All ports of the range, or `_MAX_ATTEMPTS` of them if there are more."""
        ports = range(self.first, self.last + 1)
        return random.SystemRandom().sample(ports, min(len(ports), _MAX_ATTEMPTS))


UNRESTRICTED = PortRange(20_000, 31_999)
"""The ports to choose from without a restriction. They lie below the range from which operating systems choose the
ports of outgoing connections (on Linux from 32768), so no outgoing connection takes a port after its reservation is
closed."""


def bind_free_port(address: str, ports: PortRange, bind: Callable[[int], T]) -> T:
    """What `bind` returns for a free port of the range; RunError if all are in use.

    `bind` raises OSError with EADDRINUSE if a port is in use.
    """
    for port in ports.in_random_order():
        try:
            return bind(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise RunError(f"cannot listen at {address}:{port}: {error.strerror or error}") from None
    raise RunError(
        f"no free port on {address}: the ports {ports} are in use; end the processes that listen there, or allow more"
    )


def listening_socket(address: str, ports: PortRange | None = None) -> socket.socket:
    """A socket that listens on a free port, for a framework that can take over a listening socket."""
    if ports is None:
        listener = socket.create_server((address, 0), backlog=_BACKLOG)
    else:
        listener = bind_free_port(address, ports, lambda port: socket.create_server((address, port), backlog=_BACKLOG))
    listener.setblocking(True)
    return listener


def reserve_port(address: str, ports: PortRange | None = None) -> socket.socket:
    """A bound socket, for a framework that can only bind a port itself: close it just before the framework binds.

    No other process can take the port between its announcement to the peers and its use.
    """
    if ports is not None:
        # In a small range, most ports may still have closed connections of the run before (TIME_WAIT). Only a
        # listening socket can bind such a port and also keep it for itself.
        return listening_socket(address, ports)
    return bind_free_port(address, UNRESTRICTED, lambda port: _bound_socket(address, port))


def hold_port(address: str) -> socket.socket:
    """A bound socket, for a framework that binds the port itself, but at a time that is not known.

    The framework can bind and use the port while the socket is open, because both allow the address to be reused and
    only one of them listens (on Linux). A program that asks for any free port does not get it.
    """
    return bind_free_port(address, UNRESTRICTED, lambda port: _bound_socket(address, port, reuse=True))


def _bound_socket(address: str, port: int, *, reuse: bool = False) -> socket.socket:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if reuse:
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((address, port))
    except OSError:
        reservation.close()
        raise
    return reservation
