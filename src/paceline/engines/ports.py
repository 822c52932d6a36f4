"""Ports that are ours from the moment they are announced."""

import random
import socket

# Below the range from which systems choose ports for outgoing connections.
_RANGE = range(20_000, 32_000)
_TRIES = 200


def listening_socket(address: str) -> socket.socket:
    """For frameworks that take over a listening socket."""
    listener = socket.create_server((address, 0), backlog=128)
    listener.setblocking(True)
    return listener


def held_port(address: str) -> socket.socket:
    """For frameworks that insist on binding themselves: held here until just before they do."""
    for port in random.SystemRandom().sample(_RANGE, _TRIES):
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind((address, port))
        except OSError:
            holder.close()
        else:
            return holder
    raise OSError(f"none of {_TRIES} ports tried on {address} is free")
