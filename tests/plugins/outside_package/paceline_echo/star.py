"""Connections between workers in the form of a star: every worker has one to the first worker, the chief."""

import socket
from secrets import compare_digest
from typing import BinaryIO, cast

import numpy as np

from paceline.errors import RunError
from paceline.plan.roles import CHIEF
from paceline.ports import listening_socket
from paceline.train.context import TaskContext
from paceline.workloads.parameters import Vector
from paceline_echo.engine import TOKEN

_PURPOSE = "averages"


class Star:
    def __init__(self, context: TaskContext) -> None:
        """Connect all workers; returns when this worker's connections are there."""
        job = context.job
        self._token = job.secrets[TOKEN].encode()
        self._is_chief, self._workers = job.is_chief, job.workers
        # A task listens only on its own host's address, and tells Paceline where.
        listener = listening_socket(job.address, job.ports) if self._is_chief else None
        addresses = {_PURPOSE: "{}:{}".format(*listener.getsockname())} if listener else {}
        # This returns the addresses of all tasks, once every task has sent its own.
        peers = context.rendezvous.exchange_addresses(addresses)
        if listener:
            self._streams = self._accept(listener)
        else:
            host, port = peers[CHIEF][_PURPOSE].rsplit(":", 1)
            self._streams = [_stream(socket.create_connection((host, int(port))))]
            _send(self._streams[0], self._token)

    def average(self, vector: Vector) -> None:
        """Replace the vector, in place, by the mean of all workers' vectors."""
        if self._is_chief:
            for stream in self._streams:
                vector += np.frombuffer(_receive(stream, vector.nbytes), np.float32)
            vector /= self._workers
            for stream in self._streams:
                _send(stream, vector.tobytes())
        else:
            (stream,) = self._streams
            _send(stream, vector.tobytes())
            vector[:] = np.frombuffer(_receive(stream, vector.nbytes), np.float32)

    def broadcast(self, first: int, second: int) -> tuple[int, int]:
        """The two numbers of the chief, in every worker."""
        numbers = np.array([first, second])
        for stream in self._streams:
            if self._is_chief:
                _send(stream, numbers.tobytes())
            else:
                numbers = np.frombuffer(_receive(stream, numbers.nbytes), numbers.dtype)
        return int(numbers[0]), int(numbers[1])

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _accept(self, listener: socket.socket) -> list[BinaryIO]:
        """A connection to each other worker. One that does not know the token is closed."""
        streams: list[BinaryIO] = []
        with listener:
            while len(streams) < self._workers - 1:
                stream = _stream(listener.accept()[0])
                if compare_digest(stream.read(len(self._token)), self._token):
                    streams.append(stream)
                else:
                    stream.close()
        return streams


def _stream(connection: socket.socket) -> BinaryIO:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return cast(BinaryIO, connection.makefile("rwb"))


def _send(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()


def _receive(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise RunError("another worker has closed its connection")
    return data
