"""Reserves TCP ports, so that no other process can take a port between its announcement to the peers and its use."""

import random
import socket

_PORTS = range(20_000, 32_000)
"""The ports to choose from. They lie below the range from which operating systems choose the ports of outgoing
connections (on Linux from 32768), so no outgoing connection takes a port after its reservation is closed."""
_MAX_ATTEMPTS = 200
"""Random ports to try before giving up; only a host with nearly all ports in use needs more than a few."""


def listening_socket(address: str) -> socket.socket:
    """A socket that listens on a free port, for a framework that can take over a listening socket."""
    listener = socket.create_server((address, 0), backlog=128)
    listener.setblocking(True)
    return listener


def reserve_port(address: str) -> socket.socket:
    """A bound socket, for a framework that can only bind a port itself: close it just before the framework binds."""
    for port in random.SystemRandom().sample(_PORTS, _MAX_ATTEMPTS):
        reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            reservation.bind((address, port))
        except OSError:
            reservation.close()
        else:
            return reservation
    raise OSError(
        f"no free port on {address}: {_MAX_ATTEMPTS} random ports from {_PORTS.start} to {_PORTS.stop - 1} are in use; "
        "end processes that listen there"
    )
