"""Ports that are held from the moment they are announced."""

import socket


def listening_socket(address: str) -> socket.socket:
    listener = socket.create_server((address, 0), backlog=128)
    listener.setblocking(True)
    return listener
